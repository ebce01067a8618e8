"""Costs of links against a gold standard of sure and possible ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.jit.dispatch import kernel
from ..core.oracles import augment, task_loss
from .costs import ItemCosts

# Kinds of pairs in the gold standard.
OTHER, SURE, POSSIBLE = 0, 1, 2


class LinkCosts(NamedTuple):
    """Costs of errors against the gold standard: exactly 0 for labellings that agree with it."""

    # As in ItemCosts: costs of linking each pair, and of no links.
    item_ptr: np.ndarray
    part_ptr: np.ndarray
    loss: np.ndarray
    constant: np.ndarray
    # (n_items or 0,): Kind of each pair in the gold standard.
    kind: np.ndarray
    # (n_samples or 0,): Costs of a missed sure link, and of a wrong link.
    missed: np.ndarray
    extra: np.ndarray
    # (n_samples or 0,): Cost of the training target, which counts as 0.
    base: np.ndarray


augment.register(LinkCosts)(augment.registry[ItemCosts])


@task_loss.register(LinkCosts)
@kernel
def _(target, i, labels):
    first, missed, extra = target.item_ptr[i], 0, 0
    for q in range(target.item_ptr[i + 1] - first):
        kind = target.kind[first + q]
        if labels[q] == 1:
            extra += 1 if kind == OTHER else 0
        else:
            missed += 1 if kind == SURE else 0
    # For the training target this is exactly 0; by rounding, others may be below.
    return max(0.0, target.missed[i] * missed + target.extra[i] * extra - target.base[i])
