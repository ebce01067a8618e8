"""Loops over pairs of words: expected counts of translations, common letters."""

import math

from ...core.dispatch import kernel


@kernel
def expected_counts(first, stop, corpus, made, step_given, step_made, t, null, count, null_count):
    """The E-step of IBM model 1 on some sentence pairs; adds counts, gives the log-likelihood.

    Cell (i, j) of pair s is at ``cell_ptr[s] + i * step_given(s) + j * step_made(s)``, whichever
    side is the given one; `null` has the probabilities that no word of it stands behind a word.
    """
    total = 0.0
    for s in range(first, stop):
        n_made = corpus.made_ptr[s + 1] - corpus.made_ptr[s]
        n_given = corpus.given_ptr[s + 1] - corpus.given_ptr[s]
        across, down = step_given[s], step_made[s]
        for j in range(n_made):
            word = made[corpus.made_ptr[s] + j]
            at = corpus.cell_ptr[s] + j * down
            norm = null[word]
            for i in range(n_given):
                norm += t[corpus.cells[at + i * across]]
            scale = 1.0 / norm
            null_count[word] += null[word] * scale
            for i in range(n_given):
                cell = corpus.cells[at + i * across]
                count[cell] += t[cell] * scale
            total += math.log(norm / (n_given + 1))
    return total


@kernel
def common_letters(first, first_ptr, second, second_ptr, row, prefix, common):
    """Lengths of the common prefix and of the longest common subsequence of all pairs of words."""
    for a in range(first_ptr.shape[0] - 1):
        n = first_ptr[a + 1] - first_ptr[a]
        for b in range(second_ptr.shape[0] - 1):
            m = second_ptr[b + 1] - second_ptr[b]
            length = 0
            while length < min(n, m) and (
                first[first_ptr[a] + length] == second[second_ptr[b] + length]
            ):
                length += 1
            prefix[a, b] = length
            for q in range(m + 1):
                row[q] = 0
            for p in range(n):
                diagonal = 0
                for q in range(m):
                    above = row[q + 1]
                    if first[first_ptr[a] + p] == second[second_ptr[b] + q]:
                        row[q + 1] = diagonal + 1
                    elif row[q] > above:
                        row[q + 1] = row[q]
                    diagonal = above
            common[a, b] = row[m]
