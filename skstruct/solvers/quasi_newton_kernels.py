"""Sweeps of L-BFGS and OWL-QN over blocks of the weights."""

from __future__ import annotations

from ..core.jit.kernels import inner_kernel, kernel

#: Numbers that :func:`measure`, :func:`combine` and :func:`soft_sums` give.
N_MEASURED, N_COMBINED, N_SOFT = 8, 4, 4

#: Elements that stay in the cache while all pairs pass.
BLOCK = 1024


@inner_kernel(inline=True)
def _pseudo(g, w, lam1):
    """Element of the subdifferential of smallest size, where g is the smooth part's derivative."""
    if w > 0.0:
        return g + lam1
    if w < 0.0:
        return g - lam1
    if g > lam1:
        return g - lam1
    return g + lam1 if g < -lam1 else 0.0


@kernel
def measure(w, d, p, mixed, inverse_n, lam, lam1, first, last, out):
    """Turn `d` from a sum over samples into their mean, and measure the point."""
    a, b, c, e, f, h, one, gap = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    # Indices from 0 are known not to be negative, and loops over them take several at a time.
    w, d, p, mixed = w[first:last], d[first:last], p[first:last], mixed[first:last]
    for j in range(last - first):
        d[j] *= inverse_n
        change = d[j] - mixed[j]
        a += w[j] * w[j]
        b += w[j] * d[j]
        f += change * mixed[j]
        h += change * change
    if lam1 > 0.0:
        for j in range(last - first):
            g = _pseudo(lam * w[j] + d[j], w[j], lam1)
            c += g * p[j]
            e += g * g
            one += abs(w[j])
            if lam > 0.0:
                beyond = abs(d[j]) - lam1
                beyond = beyond if beyond > 0.0 else 0.0
                # With z = -sign(d) beyond / lam, where the term is 0: a square, and what is left.
                z = -beyond / lam if d[j] > 0.0 else beyond / lam
                away = w[j] - z
                left = lam1 * abs(w[j]) + w[j] * (d[j] + lam * z)
                gap += 0.5 * lam * away * away + (left if left > 0.0 else 0.0)
    else:
        for j in range(last - first):
            g = lam * w[j] + d[j]
            c += g * p[j]
            e += g * g
    out[0], out[1], out[2], out[3], out[4], out[5] = a, b, c, e, f, h
    out[6], out[7] = one, gap


@kernel
def mix(mixed, d, share, first, last, out):
    """``mixed += share (d - mixed)``; out[0] receives its squared norm."""
    total = 0.0
    mixed, d = mixed[first:last], d[first:last]
    for j in range(last - first):
        mixed[j] += share * (d[j] - mixed[j])
        total += mixed[j] * mixed[j]
    out[0] = total


@kernel
def soft_sums(x, y, origin, share, lam1, first, last, out):
    """Write the sums that make up a dual bound, along a line of dual points."""
    value, slope, curve, largest = 0.0, 0.0, 0.0, 0.0
    x, y = x[first:last], y[first:last]
    for j in range(last - first):
        before = origin * x[j]
        change = y[j] - before
        g = before + share * change
        size = abs(g)
        largest = size if size > largest else largest
        soft = size - lam1
        if soft > 0.0:
            value += soft * soft
            slope += soft * (change if g > 0.0 else -change)
            curve += change * change
    out[0], out[1], out[2], out[3] = value, slope, curve, largest


@kernel
def step(w, d, p, t, lam, lam1, trial, first, last, out):
    """``trial = w + t p``, in the orthant of w; out[2:] takes ``<g, trial - w>`` and its norm."""
    slope, squared = 0.0, 0.0
    w, d, p, trial = w[first:last], d[first:last], p[first:last], trial[first:last]
    if lam1 > 0.0:
        for j in range(last - first):
            g = _pseudo(lam * w[j] + d[j], w[j], lam1)
            x = w[j] + t * p[j]
            side = w[j] if w[j] != 0.0 else -g
            x = x if x * side > 0.0 else 0.0
            trial[j] = x
            change = x - w[j]
            slope += g * change
            squared += change * change
    else:
        for j in range(last - first):
            change = t * p[j]
            trial[j] = w[j] + change
            slope += (lam * w[j] + d[j]) * change
            squared += change * change
    out[2] += slope
    out[3] += squared


@kernel
def combine(pairs, scales, coefficients, own, w, d, p, t, lam, lam1, trial, first, last, out):
    """The direction from its coefficients, and a step along it."""
    slope, squared = 0.0, 0.0
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        here, gradient, way = w[begin:end], d[begin:end], p[begin:end]
        scale = scales[begin:end]
        for j in range(end - begin):
            g = lam * here[j] + gradient[j]
            g = _pseudo(g, here[j], lam1) if lam1 > 0.0 else g
            way[j] = own * scale[j] * g
        for row in range(pairs.shape[0]):
            c = coefficients[row]
            if c != 0.0:
                pair = pairs[row, begin:end]
                for j in range(end - begin):
                    way[j] += c * pair[j]
        for j in range(end - begin):
            g = lam * here[j] + gradient[j]
            way[j] *= scale[j]
            if lam1 > 0.0:
                g = _pseudo(g, here[j], lam1)
                way[j] = way[j] if here[j] != 0.0 or way[j] * g < 0.0 else 0.0
            slope += g * way[j]
            squared += way[j] * way[j]
        step(w, d, p, t, lam, lam1, trial, begin, end, out)
    out[0] += slope
    out[1] += squared


@inner_kernel
def _differences(steps, changes, scales, factor, w, d, before, d_before, lam, lam1, scratch):
    """A block of the new pair; scratch takes the gradient and both differences as they are kept."""
    for j in range(w.shape[0]):
        g = lam * w[j] + d[j]
        s = w[j] - before[j]
        y = lam * s + (d[j] - d_before[j])
        steps[j] = factor * s / scales[j]
        changes[j] = factor * y * scales[j]
        scratch[0, j] = scales[j] * (_pseudo(g, w[j], lam1) if lam1 > 0.0 else g)
    for j in range(w.shape[0]):
        scratch[1, j] = steps[j]
        scratch[2, j] = changes[j]


@kernel
def remember(
    pairs, scales, live, slot, factor, w, d, before, d_before, lam, lam1, scratch, first, last, out
):
    """Store the differences of two points, and multiply all pairs by them and by the gradient."""
    memory = live.shape[0]
    gradient, s, y = scratch[0], scratch[1], scratch[2]
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        _differences(
            pairs[slot, begin:end],
            pairs[memory + slot, begin:end],
            scales[begin:end],
            factor,
            w[begin:end],
            d[begin:end],
            before[begin:end],
            d_before[begin:end],
            lam,
            lam1,
            scratch,
        )
        for row in range(2 * memory):
            if live[row % memory] != 0:
                pair = pairs[row, begin:end]
                a, b, c = 0.0, 0.0, 0.0
                for j in range(end - begin):
                    x = pair[j]
                    a += x * gradient[j]
                    b += x * s[j]
                    c += x * y[j]
                out[3 * row] += a
                out[3 * row + 1] += b
                out[3 * row + 2] += c
