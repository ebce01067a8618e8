"""skstruct.torch on structures other than chains."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skstruct import Candidates, Chain, Grid, Matching, MultiClass, MultiLabel, Pairwise, Tree
from skstruct.testing import all_labellings
from skstruct.torch import crf_loss, decode, log_partition, smoothed_hinge_loss
from tests.helpers.torch_cases import LENGTHS, gradients_of, make_tensors

# torch.func.jvp itself compiles a decomposition so.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


def test_tree():
    tensors, labels = make_tensors()
    scores, pair = tensors[:2]
    chains = [np.arange(n) - 1 for n in LENGTHS]  # a tree that is a chain
    how = {"lengths": LENGTHS, "graph": Tree(), "structure": chains}
    expected = crf_loss(scores, pair, labels, LENGTHS)
    loss = crf_loss(scores, pair, labels, **how)
    torch.testing.assert_close(loss, expected)
    for found, right in zip(
        gradients_of(loss, tensors[:2]), gradients_of(expected, tensors[:2]), strict=True
    ):
        torch.testing.assert_close(found, right)
    star = [[-1, 0, 0], [-1], [-1, 0, 0, 0]]
    how["structure"] = star
    assert torch.autograd.gradcheck(lambda *t: crf_loss(*t, labels, **how), tensors[:2])
    best = decode(scores, pair, **how)
    at = 0
    for n in LENGTHS:
        unary, every = scores[at : at + n].detach().numpy(), all_labellings(n, 3)
        total = unary[np.arange(n), every].sum(axis=1)
        total += pair.detach().numpy()[every[:, :1], every[:, 1:]].sum(axis=1)
        assert best[at : at + n].tolist() == every[total.argmax()].tolist()
        at += n


def _nodes(n_labels=2, lengths=(3, 4), seed=5):
    rng = np.random.default_rng(seed)
    scores = torch.tensor(rng.normal(size=(sum(lengths), n_labels)), requires_grad=True)
    pair = torch.tensor(rng.normal(size=(n_labels, n_labels)), requires_grad=True)
    return scores, pair, torch.tensor(rng.integers(n_labels, size=sum(lengths)))


TRIANGLES = [[(0, 1), (1, 2), (2, 0)], [(0, 1), (1, 2), (2, 3), (3, 0)]]


def _energies(scores, pair, lengths, edges):
    for unary, ends in zip(torch.split(scores, lengths), edges, strict=True):
        every = torch.tensor(all_labellings(len(unary), unary.shape[1])).long()
        total = unary[torch.arange(len(unary)), every].sum(dim=1)
        for a, b in ends:
            total = total + pair[every[:, a], every[:, b]]
        yield every, total


def test_graphs_with_cycles():
    scores, pair, _ = _nodes(3)
    how = {"lengths": [3, 4], "graph": Pairwise(), "structure": TRIANGLES}
    log_z = log_partition(scores, pair, **how)
    expected = torch.stack(
        [torch.logsumexp(total, 0) for _, total in _energies(scores, pair, [3, 4], TRIANGLES)]
    )
    torch.testing.assert_close(log_z, expected)
    for found, right in zip(
        gradients_of(log_z.sum(), (scores, pair)),
        gradients_of(expected.sum(), (scores, pair)),
        strict=True,
    ):
        torch.testing.assert_close(found, right)


def test_grid_is_a_graph_of_pixels():
    scores, pair, _ = _nodes(2, (4, 6))
    edges = [[(0, 1), (2, 3), (0, 2), (1, 3)]]
    edges += [[(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]]
    how = {"lengths": [4, 6], "graph": Grid(), "structure": [(2, 2), (2, 3)]}
    best = decode(scores, pair, **how).split([4, 6])
    for (every, total), found in zip(_energies(scores, pair, [4, 6], edges), best, strict=True):
        assert torch.equal(found, every[total.argmax()])
    with pytest.raises(ValueError, match=r"sample 1 must be .height, width. of its 6 pixels"):
        decode(scores, pair, lengths=[4, 6], graph=Grid(), structure=[(2, 2), (2, 2)])


def test_chain_with_edge_features():
    scores, _, labels = _nodes(2)
    rows = [np.array([[1.0], [2.0]]), np.array([[1.0], [0.5], [-1.0]])]
    pair = torch.randn(1, 2, 2, dtype=torch.float64, requires_grad=True)
    how = {"lengths": [3, 4], "graph": Chain(edge_features=True), "structure": rows}
    loss = crf_loss(scores, pair, labels, **how, reduction="sum")
    expected = 0.0
    for unary, truth, x in zip(scores.split([3, 4]), labels.split([3, 4]), rows, strict=True):
        every = torch.tensor(all_labellings(len(truth), 2)).long()
        steps = pair[0][every[:, :-1], every[:, 1:]] * torch.tensor(x[:, 0])
        total = unary[torch.arange(len(truth)), every].sum(dim=1) + steps.sum(dim=1)
        right = total[(every == truth).all(dim=1)][0]
        expected = expected + torch.logsumexp(total, 0) - right
    torch.testing.assert_close(loss, expected)
    for found, right in zip(
        gradients_of(loss, (scores, pair)), gradients_of(expected, (scores, pair)), strict=True
    ):
        torch.testing.assert_close(found, right)


def test_rows_and_candidates_are_softmax():
    scores = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 2, 1, 1])
    loss = crf_loss(scores, None, y, graph=MultiClass())
    expected = torch.nn.functional.cross_entropy(scores, y)
    torch.testing.assert_close(loss, expected)
    right = torch.autograd.grad(expected, scores)
    torch.testing.assert_close(torch.autograd.grad(loss, scores), right)
    items = scores.reshape(12, 1)
    loss = crf_loss(items, None, y, lengths=[3] * 4, graph=Candidates())
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.autograd.grad(loss, scores), right)
    chosen = decode(items, None, lengths=[3] * 4, graph=Candidates()).reshape(4, 3)
    assert torch.equal(chosen.argmax(dim=1), scores.argmax(dim=1))
    with pytest.raises(ValueError, match="have one column"):
        crf_loss(scores, None, y, lengths=[1] * 4, graph=Candidates())
    with pytest.raises(ValueError, match="has no table of pairs"):
        crf_loss(scores, torch.zeros(3, 3), y, graph=MultiClass())


def test_label_sets_without_edges_are_sigmoids():
    scores = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 0]])
    loss = crf_loss(scores, None, y, graph=MultiLabel(edges=None), reduction="sum")
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        scores, y.double(), reduction="sum"
    )
    torch.testing.assert_close(loss, expected)
    with pytest.raises(ValueError, match="learnt from the labels of fit"):
        crf_loss(scores, None, y, graph=MultiLabel(edges="tree"))


def test_matchings_have_a_hinge_and_no_likelihood():
    scores = torch.tensor([[2.0], [0.0], [0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    how = {"lengths": [4], "graph": Matching(), "structure": [(2, 2)]}
    links = [np.array([[0, 1], [1, 0]])]
    assert decode(scores, None, **how).tolist() == [1, 0, 0, 1]
    loss = smoothed_hinge_loss(scores, None, links, smoothing=None, **how)
    (gradient,) = torch.autograd.grad(loss, scores)
    # All four pairs are wrong in the best matching, each of which costs 1.
    assert loss.item() == pytest.approx(3.0 + 4.0)
    assert gradient.ravel().tolist() == [1, -1, -1, 1]
    with pytest.raises(TypeError, match=r"has no marginals.*smoothing=None"):
        crf_loss(scores, None, links, **how)
