"""Passes over mini-buckets: eliminate forward, hand back, agree on what was split."""

from ...core.dispatch import inner_kernel, kernel


@inner_kernel
def _add_message(m, q, table, message, weight, digits):
    """Add a message to the table of a cluster's parent."""
    begin, last = m.run_ptr[q], m.run_ptr[q + 1] - 1
    digits[: last - begin + 1] = 0
    n, step = m.run_size[last], m.run_step[last]
    at = 0
    for row in range(0, table.size, n):
        if step == 1:
            for k in range(n):
                table[row + k] += weight * message[at + k]
        else:
            for k in range(n):
                table[row + k] += weight * message[at + k * step]
        d = last - 1
        while d >= begin:
            digits[d - begin] += 1
            at += m.run_step[d]
            if digits[d - begin] < m.run_size[d]:
                break
            at -= m.run_step[d] * m.run_size[d]
            digits[d - begin] = 0
            d -= 1


@inner_kernel
def _max_message(m, q, table, message, digits):
    """Max-marginals of the parent's table on the variables of a cluster's message."""
    begin, last = m.run_ptr[q], m.run_ptr[q + 1] - 1
    digits[: last - begin + 1] = 0
    n, step = m.run_size[last], m.run_step[last]
    at = 0
    for row in range(0, table.size, n):
        if step == 1:
            for k in range(n):
                s = table[row + k]
                message[at + k] = s if s > message[at + k] else message[at + k]
        else:
            for k in range(n):
                s = table[row + k]
                if s > message[at + k * step]:
                    message[at + k * step] = s
        d = last - 1
        while d >= begin:
            digits[d - begin] += 1
            at += m.run_step[d]
            if digits[d - begin] < m.run_size[d]:
                break
            at -= m.run_step[d] * m.run_size[d]
            digits[d - begin] = 0
            d -= 1


@inner_kernel
def _agree(m, hat, first, last, marginals, low):
    """Max-marginals of one variable in its clusters; the last row gets their mean."""
    n = m.n_own[first]
    mean = marginals[(last - first) * n : (last - first + 1) * n]
    mean[:] = 0.0
    for q in range(first, last):
        own = marginals[(q - first) * n : (q - first + 1) * n]
        own[:] = low
        table = hat[m.cell_ptr[q] : m.cell_ptr[q + 1]]
        for row in range(0, table.size, n):
            for k in range(n):
                s = table[row + k]
                own[k] = s if s > own[k] else own[k]
        for k in range(n):
            mean[k] += own[k] / (last - first)
    for q in range(first, last):
        for k in range(n):
            at = (q - first) * n + k
            marginals[at] = mean[k] - marginals[at]


@inner_kernel
def _eliminate(m, q, hat, shift, message, low):
    """Add to a table by its own variable, then take out the maxima over it."""
    n = m.n_own[q]
    table = hat[m.cell_ptr[q] : m.cell_ptr[q + 1]]
    for at in range(table.size // n):
        row = at * n
        best = low
        for k in range(n):
            s = table[row + k] + shift[k]
            table[row + k] = s
            best = s if s > best else best
        for k in range(n):
            table[row + k] -= best
        message[at] = best


@kernel
def forward_pass(m, hat, w, start, stop):
    """Eliminate the variables of a range of the order; their clusters' maxima become 0."""
    for position in range(start, stop):
        first, last = m.bucket_ptr[position], m.bucket_ptr[position + 1]
        n = m.n_own[first]
        w.marginals[: (last - first + 1) * n] = 0.0
        if last - first > 1:
            _agree(m, hat, first, last, w.marginals, w.low)
        for q in range(first, last):
            message = w.message[: (m.cell_ptr[q + 1] - m.cell_ptr[q]) // n]
            shift = w.marginals[(q - first) * n : (q - first + 1) * n]
            _eliminate(m, q, hat, shift, message, w.low)
            p = m.parent[q]
            if p >= 0:
                table = hat[m.cell_ptr[p] : m.cell_ptr[p + 1]]
                _add_message(m, q, table, message, 1.0, w.digits)
                w.left[p] = m.n_children[p]
            else:
                w.sums[0] += message[0]
                w.sums[1] += abs(message[0])


@inner_kernel
def _decode(m, hat, first, last, labels, scores):
    """Best label of the clusters' variable, those of the others known."""
    n = m.n_own[first]
    scores[:n] = 0.0
    for q in range(first, last):
        at = m.cell_ptr[q]
        for d in range(m.dim_ptr[q], m.dim_ptr[q + 1] - 1):
            at += m.step[d] * labels[m.dim[d]]
        for k in range(n):
            scores[k] += hat[at + k]
    best = 0
    for k in range(1, n):
        best = k if scores[k] > scores[best] else best
    return best


@kernel
def backward_pass(m, hat, w, labels, start, stop):
    """Decode, and hand shares of the clusters' scores back, in the reverse order."""
    for back in range(start, stop):
        position = m.order.size - 1 - back
        first, last = m.bucket_ptr[position], m.bucket_ptr[position + 1]
        labels[m.order[position]] = _decode(m, hat, first, last, labels, w.marginals)
        n = m.n_own[first]
        for q in range(first, last):
            p = m.parent[q]
            if p < 0:
                continue
            message = w.message[: (m.cell_ptr[q + 1] - m.cell_ptr[q]) // n]
            message[:] = w.low
            parent = hat[m.cell_ptr[p] : m.cell_ptr[p + 1]]
            _max_message(m, q, parent, message, w.digits)
            share = 1.0 / (w.left[p] + 1.0)
            w.left[p] -= 1
            _add_message(m, q, parent, message, -share, w.digits)
            table = hat[m.cell_ptr[q] : m.cell_ptr[q + 1]]
            for at in range(message.size):
                for k in range(n):
                    table[at * n + k] += share * message[at]
        if last - first > 1:
            _agree(m, hat, first, last, w.marginals, w.low)
            for q in range(first, last):
                table = hat[m.cell_ptr[q] : m.cell_ptr[q + 1]]
                for row in range(0, table.size, n):
                    for k in range(n):
                        table[row + k] += w.marginals[(q - first) * n + k]
