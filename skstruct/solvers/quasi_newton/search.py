"""Line searches: along a smooth function, and down to sufficient decrease."""

from __future__ import annotations

import math

_DECREASE, _FLATTER = 1e-4, 0.9
_MOST_TESTS = 40


def wolfe(function, value: float, slope: float, step: float, rounding: float) -> bool:
    """Search for a step with the strong Wolfe conditions.

    Where the values differ by rounding alone, slopes tell instead (the approximate conditions of
    Hager and Zhang): the search works to the last digits of the gradient.

    Nocedal & Wright 2006, Numerical Optimization, Algorithms 3.5 and 3.6; Hager & Zhang 2005, A New
    Conjugate Gradient Method with Guaranteed Descent and an Efficient Line Search, section 4.
    """
    low, high = (0.0, value, slope), None
    for test in range(_MOST_TESTS):
        now, rising = function(step)
        if not (math.isfinite(now) and math.isfinite(rising)):
            high = step, math.inf, math.nan
        else:
            decreases = now <= value + _DECREASE * step * slope or (
                now <= value + rounding and rising <= (2.0 * _DECREASE - 1.0) * slope
            )
            if decreases and abs(rising) <= -_FLATTER * slope:
                return True
            if not decreases or rising >= 0.0:
                high = step, now, rising
            else:
                low = step, now, rising
        following = _extend(low) if high is None else _between(low, high, test)
        if following == step or not 0.0 < following < math.inf:
            break
        step = following
    # A step that decreases enough, if not one that is flat enough.
    if low[0] > 0.0:
        function(low[0])
        return True
    return False


def _extend(low):
    """A step beyond the longest one, which is still steep."""
    return 4.0 * low[0] if low[0] < 1.0 else 10.0 * low[0]


def _between(low, high, test):
    """A step inside the bracket, where the cubic through its ends is lowest."""
    a, value, slope = low
    b, other, rising = high
    width = b - a
    if not math.isfinite(other):
        return a + 0.1 * width
    fraction = 0.5
    if test % 3 != 2:  # now and then in the middle: the bracket shrinks
        z = 3.0 * (value - other) / width + slope + rising
        square = z * z - slope * rising
        if square >= 0.0:
            root = math.sqrt(square)
            bottom = rising - slope + 2.0 * root
            if bottom != 0.0:
                fraction = 1.0 - (rising + root - z) / bottom
    if not math.isfinite(fraction):
        fraction = 0.5
    return a + min(max(fraction, 0.1), 0.9) * width


def backtrack(function, value: float, step: float, rounding: float) -> bool:
    """Halve a step until the function decreases enough.

    Andrew & Gao 2007, Scalable Training of L1-Regularized Log-Linear Models, section 3.2.
    """
    for _ in range(_MOST_TESTS):
        now, promised = function(step)
        if promised < 0.0 and now <= value + _DECREASE * promised:
            return True
        # Rounding hides what is left to gain.
        if abs(promised) <= rounding and now <= value + rounding:
            return False
        step *= 0.5 if math.isfinite(now) else 0.1
    return False
