"""Assignments of largest score by shortest augmenting paths, on flat arrays."""

import math

from ..core.dispatch import inner_kernel, kernel
from .assignment_paths import AssignmentWork, Side, assignment_work, augment, count_above, least_of
from .assignment_ties import lowest_of_ties

# Of the numbers that a gain is made of: what rounding may add to it.
_SAME = 2.0**-50
# Of the sum of all scores: pairs that fit worse by this are no tie.
_MARGIN = 2.0**-44
# With so few sources without links a price war takes longer than paths.
_FEW = 4

__all__ = ["AssignmentWork", "assignment", "assignment_work"]


@inner_kernel
def _bound(scores, size, both):
    """Sum of the positive scores, with `both` of the absolute values; NaN for a NaN or +inf."""
    total, wrong = 0.0, 0
    for q in range(size):
        s = scores[q]
        wrong += 0 if s < math.inf else 1
        total += s if s > 0.0 else 0.0
    if wrong:
        return math.nan
    if both:
        for q in range(size):
            s = scores[q]
            total -= s if -math.inf < s < 0.0 else 0.0
    return total


@inner_kernel
def _repair(price, least, most):
    """Bring prices from elsewhere into their range."""
    for j in range(price.shape[0]):
        if not price[j] > least:
            price[j] = least
        elif price[j] > most:
            price[j] = most


@inner_kernel
def _keep_links(scores, n, m, mate, taken, u, v, alone, margin, near):
    """Keep links of sources that find nothing better; `near` is inf if nothing is as good."""
    for j in range(m):
        taken[j] = -1
    for i in range(n):
        at, place, gain, slack = i * m, mate[i], 0.0, 0.0
        mate[i], u[i], near[i] = -1, math.inf, 0.0
        if 0 <= place < m and taken[place] < 0:
            gain = scores[at + place] - v[place]
            slack = _SAME * (abs(gain) + v[place])
            if gain == -math.inf or (alone and gain < 0.0):
                continue
        elif place >= 0 or not alone:
            continue
        lonely = count_above(scores, at, v, m, gain - margin) == (1.0 if place >= 0 else 0.0)
        if lonely or count_above(scores, at, v, m, gain + slack) == 0.0:
            near[i] = math.inf if lonely else 0.0
            u[i] = gain
            mate[i] = max(place, -1)
            if place >= 0:
                taken[place] = i


@inner_kernel
def _are_satisfied(sources, targets, kept):
    """Whether the links that were kept are the best ones."""
    for i in range(sources.size):
        if sources.price[i] == math.inf:
            return False
    for j in range(targets.size):
        if targets.mate[j] < 0 and not (kept and targets.price[j] <= 0.0):
            return False
    return True


@inner_kernel
def _centre(scores, n, m, mate, u, v, alone, kept, near, far, gap):
    """Move the prices of linked pairs away from their limits: small changes then break no link."""
    for j in range(m):
        far[j] = v[j] if kept else math.inf
    for i in range(n):
        at, price, mine = i * m, u[i], mate[i]
        for j in range(m):
            gap[j] = price + v[j] - scores[at + j]
        if mine >= 0:
            gap[mine] = math.inf
        for j in range(m):
            far[j] = gap[j] if gap[j] < far[j] else far[j]
        near[i] = max(0.0, min(least_of(gap, m), price if alone else math.inf))
    for i in range(n):
        if mate[i] >= 0 and max(near[i], far[mate[i]]) < math.inf:
            shift = 0.5 * (near[i] - max(0.0, far[mate[i]]))
            u[i] -= shift
            v[mate[i]] += shift


@inner_kernel
def _centre_few(scores, n, m, mate, u, v, alone, kept, near, before):
    """As `_centre`, for pairs whose prices have changed; False where others may have come near."""
    fell = 0.0
    for j in range(m):
        fell += 1.0 if v[j] < before[n + j] else 0.0
    if fell > 0.0:
        return False
    for i in range(n):
        place = mate[i]
        if u[i] == before[i] and near[i] > 0.0:
            continue
        at, price = i * m, u[i]
        here = price if alone else math.inf
        for j in range(m):
            gap = price + v[j] - scores[at + j]
            if gap < here and j != place:
                here = gap
        near[i] = max(0.0, here)
        if place < 0:
            continue
        price = v[place]
        there = price if kept else math.inf
        for k in range(n):
            gap = u[k] + price - scores[k * m + place]
            if gap < there and k != i:
                there = gap
        if max(here, there) < math.inf:
            shift = 0.5 * (near[i] - max(0.0, there))
            u[i] -= shift
            v[place] += shift
    return True


@inner_kernel
def _two_best(i, scores, sources, targets, alone):
    """A source's two best targets at their prices, -1 for none, and what they give."""
    first, second, best, next_best = -1, -1, -math.inf, -math.inf
    if alone:
        best = 0.0
    at = i * sources.stride
    for j in range(targets.size):
        gain = scores[at + j] - targets.price[j]
        if gain > next_best:
            if gain > best:
                second, next_best = first, best
                first, best = j, gain
            else:
                second, next_best = j, gain
    return first, second, best, next_best


@inner_kernel
def _take_best(scores, sources, targets, alone):
    """Link other sources to the target they like best, if nobody has it; how many go without."""
    mate, taken, price = sources.mate, targets.mate, targets.price
    without = 0
    for i in range(sources.size):
        if sources.price[i] < math.inf:
            continue
        best, place, at = 0.0 if alone else -math.inf, -1, i * sources.stride
        for j in range(targets.size):
            gain = scores[at + j] - price[j]
            if gain > best:
                best, place = gain, j
        sources.price[i] = best
        if place >= 0:
            if taken[place] < 0:
                mate[i] = place
                taken[place] = i
            else:
                without += 1
    return without


@inner_kernel
def _bid(scores, sources, targets, alone, work):
    """Augmenting row reduction: sources outbid each other for the targets they like best."""
    mate, taken, queue = sources.mate, targets.mate, work.remaining
    waiting = 0
    for i in range(sources.size):
        if mate[i] < 0 and not (alone and sources.price[i] <= 0.0):
            queue[waiting] = i
            waiting += 1
    for _ in range(2):
        k, last, steps = 0, waiting, 0
        waiting = 0
        while k < last:
            i = queue[k]
            k += 1
            first, second, best, next_best = _two_best(i, scores, sources, targets, alone)
            steps += 1
            sources.price[i] = best
            if first < 0:
                continue
            owner = taken[first]
            raised = next_best < best and next_best > -math.inf
            if raised:
                sources.price[i] = next_best
                targets.price[first] += best - next_best
            elif owner >= 0 and second >= 0 and next_best == best:
                first = second
                owner = taken[first]
            mate[i] = first
            taken[first] = i
            if owner >= 0:
                mate[owner] = -1
                if raised and steps < 2 * sources.size:
                    k -= 1
                    queue[k] = owner
                else:
                    queue[waiting] = owner
                    waiting += 1


@inner_kernel
def _link_again(scores, sources, targets, alone, kept, work):
    """Link sources that have lost their links, and what follows; False if that cannot be."""
    n, m, before, near = sources.size, targets.size, work.before, work.slack
    mate, u, v = sources.mate, sources.price, targets.price
    for i in range(n):
        before[i] = u[i]
    for j in range(m):
        before[n + j] = v[j]
    many = _take_best(scores, sources, targets, alone) > _FEW
    if many:
        _bid(scores, sources, targets, alone, work)
    if not link_all(scores, sources, targets, alone, kept, work):
        return False
    if many or not _centre_few(scores, n, m, mate, u, v, alone, kept, near, before):
        _centre(scores, n, m, mate, u, v, alone, kept, near, work.distance, work.gap)
    return True


@kernel
def assignment(scores, n_sources, n_targets, null, price, match, work):
    """Links of largest total score, at most one for each source and each target.

    Shortest augmenting paths on reduced costs after an augmenting row reduction (Jonker and
    Volgenant 1987, A shortest augmenting path algorithm for dense and sparse linear assignment
    problems, steps 2 and 3). Prices that do not fit the scores are repaired; sources and targets
    whose links they leave suboptimal are linked again, the others are not looked at.

    Of several best matchings the lowest is chosen: source by source no link if that is one of
    them, then the first target. So the answer does not depend on the prices at the start, as long
    as second-best matchings are worse by more than rounding.
    """
    n, m = n_sources, n_targets
    most = _bound(scores, n * m, not null)
    if math.isnan(most):
        for i in range(n):
            match[i] = -1
        return most
    alone, kept = null or n > m, null or n < m
    sources = Side(n, m, 0, work.u[:n], match)
    targets = Side(m, 1, 0, price[:m], work.mate[:m])
    _repair(targets.price, 0.0 if kept else -most, most)
    margin, near = _MARGIN * most, work.slack
    _keep_links(scores, n, m, match, targets.mate, work.u, price, alone, margin, near)
    done = _are_satisfied(sources, targets, kept)
    if not (done or _link_again(scores, sources, targets, alone, kept, work)):
        for i in range(n):
            match[i] = -1
        return -math.inf
    lowest_of_ties(scores, sources, targets, alone, kept, margin, work)
    return total_score(scores, n, m, match)


@inner_kernel
def link_all(scores, sources, targets, alone, kept, work):
    """Augment from every vertex that has no link and may not stay so at its price."""
    for i in range(sources.first, sources.size):
        satisfied = sources.mate[i] >= 0 or (alone and sources.price[i] <= 0.0)
        if not (satisfied or augment(i, scores, sources, targets, alone, alone, work)):
            return False
    for j in range(targets.size):
        satisfied = targets.mate[j] >= 0 or (kept and targets.price[j] <= 0.0)
        if not (satisfied or augment(j, scores, targets, sources, kept, kept, work)):
            return False
    return True


@inner_kernel
def total_score(scores, n, m, match):
    """Score of links, source by source."""
    total = 0.0
    for i in range(n):
        if match[i] >= 0:
            total += scores[i * m + match[i]]
    return total
