"""Packed scores that the tests of skstruct.torch share."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

LENGTHS = [3, 1, 4]


def make_tensors(lengths=LENGTHS, n_labels=3, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    shapes = (n, n_labels), (n_labels, n_labels), (n_labels,), (n_labels,)
    made = [torch.tensor(rng.normal(size=shape), dtype=dtype) for shape in shapes]
    labels = torch.tensor(rng.integers(n_labels, size=n))
    return [tensor.requires_grad_() for tensor in made], labels


def pad(packed, lengths=LENGTHS, fill=0.0, batch_first=True):
    parts = torch.split(packed.detach(), lengths)
    full = torch.nn.utils.rnn.pad_sequence(parts, batch_first=batch_first, padding_value=fill)
    return full.requires_grad_(packed.requires_grad)


def make_mask(lengths=LENGTHS):
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def gradients_of(loss, tensors):
    return torch.autograd.grad(loss, tensors)
