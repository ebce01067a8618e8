"""Structured losses and layers for PyTorch. Run with PyTorch installed; skipped without."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skstruct import (  # noqa: E402
    Candidates,
    Chain,
    Grid,
    Matching,
    MultiClass,
    MultiLabel,
    Pairwise,
    ProxLinearSSVM,
    Tree,
)
from skstruct.testing import all_labellings, random_sequences  # noqa: E402
from skstruct.torch import (  # noqa: E402
    CRF,
    ModuleMap,
    crf_loss,
    decode,
    log_partition,
    marginals,
    smoothed_hinge_loss,
)
from skstruct.torch.problems import Rooms  # noqa: E402

# torch.func.jvp itself compiles a decomposition so.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
LENGTHS = [3, 1, 4]


def _tensors(lengths=LENGTHS, n_labels=3, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    shapes = (n, n_labels), (n_labels, n_labels), (n_labels,), (n_labels,)
    made = [torch.tensor(rng.normal(size=shape), dtype=dtype) for shape in shapes]
    labels = torch.tensor(rng.integers(n_labels, size=n))
    return [tensor.requires_grad_() for tensor in made], labels


def _padded(packed, lengths=LENGTHS, fill=0.0, batch_first=True):
    parts = torch.split(packed.detach(), lengths)
    full = torch.nn.utils.rnn.pad_sequence(parts, batch_first=batch_first, padding_value=fill)
    return full.requires_grad_(packed.requires_grad)


def _mask(lengths=LENGTHS):
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def _by_enumeration(tensors, labels, lengths=LENGTHS):
    """All labellings of each sample, their scores as torch computes them, and that of the truth."""
    scores, pair, start, stop = tensors
    parts = zip(torch.split(scores, lengths), torch.split(labels, lengths), strict=True)
    for unary, truth in parts:
        unary = unary.clone()
        unary[0] = unary[0] + start
        unary[-1] = unary[-1] + stop
        n, n_labels = unary.shape
        every = torch.tensor(all_labellings(n, n_labels)).long()
        steps = pair[every[:, :-1], every[:, 1:]].sum(dim=1)
        total = unary[torch.arange(n), every].sum(dim=1) + steps
        yield every, total, total[(every == truth).all(dim=1)][0], truth


def _reference(kind, tensors, labels, strength=0.7):
    losses = []
    for every, total, right, truth in _by_enumeration(tensors, labels):
        if kind != "crf":
            total = total + (every != truth).sum(dim=1)
        if kind == "hinge":
            best = total.max()
        elif kind == "entropy":
            best = strength * torch.logsumexp(total / strength, dim=0)
        else:
            best = torch.logsumexp(total, dim=0)
        losses.append(best - right)
    return torch.stack(losses)


def _loss(kind, tensors, labels, *how, **options):
    scores, pair, start, stop = tensors
    options |= {"start": start, "stop": stop}
    if kind == "crf":
        return crf_loss(scores, pair, labels, *how, **options)
    smoothing = {"hinge": None, "entropy": "entropy", "l2": "l2"}[kind]
    options |= {"smoothing": smoothing, "strength": 0.7}
    return smoothed_hinge_loss(scores, pair, labels, *how, **options)


def _gradients(loss, tensors):
    return torch.autograd.grad(loss, tensors)


@pytest.mark.parametrize("kind", ["crf", "hinge", "entropy"])
def test_losses_and_gradients_equal_enumeration(kind):
    tensors, labels = _tensors()
    expected = _reference(kind, tensors, labels)
    none = _loss(kind, tensors, labels, LENGTHS, reduction="none")
    torch.testing.assert_close(none, expected)
    shares = torch.tensor([0.3, -2.0, 1.0], dtype=torch.float64)
    for found, right in zip(
        _gradients(none @ shares, tensors), _gradients(expected @ shares, tensors), strict=True
    ):
        torch.testing.assert_close(found, right)
    by = {"sum": 1, "mean": len(LENGTHS), "token_mean": sum(LENGTHS)}
    for reduction, n in by.items():
        expected = _reference(kind, tensors, labels).sum() / n
        loss = _loss(kind, tensors, labels, LENGTHS, reduction=reduction)
        torch.testing.assert_close(loss, expected)
        for found, right in zip(
            _gradients(3 * loss, tensors), _gradients(3 * expected, tensors), strict=True
        ):
            torch.testing.assert_close(found, right)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradcheck(reduction):
    tensors, labels = _tensors(seed=1)

    def loss(*tensors):
        return _loss("crf", tensors, labels, LENGTHS, reduction=reduction)

    assert torch.autograd.gradcheck(loss, tensors)


def test_l2_smoothing_is_that_of_casimir():
    tensors, labels = _tensors(seed=2)
    losses = _loss("l2", tensors, labels, LENGTHS, n_best=81, reduction="none")
    scores = zip(_by_enumeration(tensors, labels), losses, strict=True)
    for (every, total, right, truth), loss in scores:
        z = (total + (every != truth).sum(dim=1)).detach().numpy() / 0.7
        order = np.sort(z)[::-1]
        cuts = (np.cumsum(order) - 1) / np.arange(1, z.size + 1)
        p = np.maximum(z - cuts[np.flatnonzero(order > cuts)[-1]], 0)
        smooth = 0.7 * (p @ z + 0.5 * (1 - p @ p)) - right.item()
        assert loss.item() == pytest.approx(smooth)
    assert torch.autograd.gradcheck(
        lambda *t: _loss("l2", t, labels, LENGTHS, n_best=81, reduction="sum"), tensors
    )


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("by_mask", [True, False])
def test_padded_batches_equal_packed_ones(batch_first, by_mask):
    tensors, labels = _tensors()
    mask = _mask() if batch_first else _mask().T
    how = {"mask": mask} if by_mask else {"lengths": torch.tensor(LENGTHS)}
    how["batch_first"] = batch_first
    scores = _padded(tensors[0], fill=float("nan"), batch_first=batch_first)
    tags = _padded(labels, fill=-100, batch_first=batch_first)
    padded = [scores, *tensors[1:]]
    expected = _loss("crf", tensors, labels, LENGTHS)
    for y in (tags, labels):
        loss = _loss("crf", padded, y, **how)
        assert loss.item() == expected.item()
    first, *rest = _gradients(loss, padded)
    right, *others = _gradients(expected, tensors)
    assert torch.equal(first[mask] if batch_first else first.transpose(0, 1)[mask.T], right)
    assert not first[~mask].any()
    assert all(map(torch.equal, rest, others))
    ends = {"start": tensors[2], "stop": tensors[3]}
    flat = marginals(*tensors[:2], LENGTHS, **ends), decode(*tensors[:2], LENGTHS, **ends)
    full = (
        marginals(scores, tensors[1], **how, **ends),
        decode(scores, tensors[1], **how, **ends, padding=-7),
    )
    for packed, table in zip(flat, full, strict=True):
        there = table if batch_first else table.transpose(0, 1)
        assert torch.equal(there[_mask()], packed)
    assert (full[1][~mask] == -7).all()


def test_padded_labels_of_packed_scores():
    tensors, labels = _tensors()
    tags = _padded(labels, fill=-100)
    expected = _loss("crf", tensors, labels, LENGTHS)
    assert torch.equal(_loss("crf", tensors, tags, LENGTHS), expected)


def test_marginals_decode_and_log_partition_equal_enumeration():
    tensors, labels = _tensors(seed=3)
    ends = {"start": tensors[2], "stop": tensors[3]}
    found = marginals(*tensors[:2], LENGTHS, **ends)
    best = decode(*tensors[:2], LENGTHS, **ends)
    log_z = log_partition(*tensors[:2], LENGTHS, **ends)
    assert not found.requires_grad
    at = 0
    for i, (every, total, _, truth) in enumerate(_by_enumeration(tensors, labels)):
        n = truth.numel()
        assert torch.equal(best[at : at + n], every[total.argmax()])
        torch.testing.assert_close(log_z[i], torch.logsumexp(total, dim=0))
        share = torch.softmax(total, dim=0)
        for t in range(n):
            by_label = torch.zeros(3, dtype=torch.float64).index_add(0, every[:, t], share)
            torch.testing.assert_close(found[at + t], by_label.detach())
        at += n
    torch.testing.assert_close(_gradients(log_z.sum(), tensors)[0], found)


def test_float32_is_computed_in_float64():
    tensors, labels = _tensors()
    single = [tensor.detach().float().requires_grad_() for tensor in tensors]
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    loss, exact = (_loss("crf", t, labels, LENGTHS) for t in (single, double))
    assert loss.dtype == torch.float32
    assert torch.equal(loss, exact.float())
    for found, right in zip(_gradients(loss, single), _gradients(exact, double), strict=True):
        assert torch.equal(found, right.float())
    assert marginals(single[0], single[1], LENGTHS).dtype == torch.float32


def test_minus_infinity_forbids_a_label():
    tensors, labels = _tensors()
    scores = tensors[0].detach().clone()
    scores[torch.arange(8), (labels + 1) % 3] = -float("inf")
    scores.requires_grad_()
    loss = crf_loss(scores, tensors[1], labels, LENGTHS)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert torch.isfinite(gradient).all()
    assert not gradient[torch.arange(8), (labels + 1) % 3].any()
    with pytest.raises(ValueError, match=r"the loss of sample 0 is inf: its labels score -inf"):
        crf_loss(scores, tensors[1], (labels + 1) % 3, LENGTHS)
    scores = scores.detach().clone()
    scores[3] = -float("inf")
    with pytest.raises(ValueError, match="sample 1"):
        marginals(scores, tensors[1], LENGTHS)
    with pytest.raises(ValueError, match="sample 1: no labelling is allowed"):
        decode(scores, tensors[1], LENGTHS)


def test_no_second_derivative():
    tensors, labels = _tensors()
    for reduction in ("mean", "none"):
        loss = _loss("crf", tensors, labels, LENGTHS, reduction=reduction).sum()
        first = torch.autograd.grad(loss, tensors, create_graph=True)
        assert torch.equal(
            first[0],
            torch.autograd.grad(
                _loss("crf", tensors, labels, LENGTHS, reduction=reduction).sum(), tensors
            )[0],
        )
        with pytest.raises(RuntimeError, match="first derivatives only"):
            first[0].square().sum().backward()


def test_the_graph_can_be_kept_for_a_second_backward_pass():
    tensors, labels = _tensors()
    loss = _loss("crf", tensors, labels, LENGTHS)
    first = torch.autograd.grad(loss, tensors, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(loss, tensors)))


def test_any_number_of_threads_gives_the_same_bits():
    lengths = [7] * 40
    tensors, labels = _tensors(lengths, n_labels=120)
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            loss = _loss("crf", tensors, labels, lengths)
            found.append((loss, *_gradients(loss, tensors), decode(*tensors[:2], lengths)))
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"scores": np.zeros((8, 3))}, TypeError, "scores must be a torch.Tensor, got ndarray"),
        ({"scores": torch.zeros(8, 3).long()}, TypeError, "floats, got torch.int64"),
        ({"scores": torch.zeros(8)}, ValueError, "2 or 3 axes"),
        ({"lengths": None}, ValueError, "lengths is missing"),
        ({"lengths": [3, 1]}, ValueError, "add up to 4, but scores has 8 rows"),
        ({"lengths": [3, 0, 5]}, ValueError, "sample 1 is empty"),
        ({"lengths": [3.0, 1.0, 4.0]}, ValueError, "lengths must be integers"),
        ({"mask": _mask()}, ValueError, "mask is for padded scores"),
        ({"labels": torch.zeros(7).long()}, ValueError, r"labels has the shape \(7,\)"),
        ({"labels": torch.zeros(8)}, TypeError, "labels must be a tensor of integers"),
        ({"labels": None}, TypeError, "labels is None"),
        ({"labels": torch.tensor([0, 0, 0, 0, 0, 3, 0, 0])}, ValueError,
         "sample 2 has the label 3 at node 1; labels are 0 to 2"),
        ({"labels": torch.full((8,), -100)}, ValueError, "sample 0 has the label -100"),
        ({"pair": torch.zeros(3, 2)}, ValueError, r"pair must have the shape \(3, 3\)"),
        ({"pair": None}, ValueError, "pair is missing"),
        ({"pair": torch.full((3, 3), float("nan"))}, ValueError, "pair has the value nan"),
        ({"start": torch.zeros(2)}, ValueError, "start has 2 scores"),
        ({"reduction": "average"}, ValueError, "reduction must be one of"),
        ({"graph": "tree"}, TypeError, "graph must be"),
        ({"graph": Chain(boundary=True)}, ValueError, "pass the scores of the ends"),
        ({"graph": Chain(forbidden="iob2")}, ValueError, "labels are numbers"),
        ({"graph": Tree()}, ValueError, "structure is missing"),
    ],
)  # fmt: skip
def test_bad_input(change, error, message):
    tensors, labels = _tensors()
    given = {"scores": tensors[0], "pair": tensors[1], "labels": labels, "lengths": LENGTHS}
    with pytest.raises(error, match=message):
        crf_loss(**(given | change))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_not_finite(value):
    tensors, labels = _tensors()
    scores = tensors[0].detach().clone()
    scores[5, 2] = value
    calls = [
        lambda: crf_loss(scores, tensors[1], labels, LENGTHS),
        lambda: smoothed_hinge_loss(scores, tensors[1], labels, LENGTHS, smoothing=None),
        lambda: decode(scores, tensors[1], LENGTHS),
        lambda: marginals(scores, tensors[1], LENGTHS),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"sample 2 has the value {value} at node 1, label 2"):
            call()


def test_bad_masks():
    tensors, labels = _tensors()
    scores, tags = _padded(tensors[0]), _padded(labels)
    hole, empty = _mask(), _mask()
    hole[2, 1] = False
    empty[1] = False
    for mask, message in (
        (hole, "sample 2 has a hole at position 1"),
        (empty, "sample 1 is empty"),
        (_mask()[:, :3], "mask has the shape"),
    ):
        with pytest.raises(ValueError, match=message):
            crf_loss(scores, tensors[1], tags, mask=mask)
    with pytest.raises(TypeError, match="mask must be a tensor of bool"):
        crf_loss(scores, tensors[1], tags, mask=_mask().float())
    with pytest.raises(ValueError, match="lengths or mask, not both"):
        crf_loss(scores, tensors[1], tags, mask=_mask(), lengths=LENGTHS)
    with pytest.raises(ValueError, match="sample 0 has length 5, but scores is padded to 4"):
        crf_loss(scores, tensors[1], tags, lengths=[5, 1, 2])


@pytest.mark.parametrize("field", ["strength", "n_best", "smoothing"])
def test_bad_smoothing(field):
    tensors, labels = _tensors()
    with pytest.raises(ValueError, match=field):
        smoothed_hinge_loss(*tensors[:2], labels, LENGTHS, **{field: 0})


# Other structures


def test_tree():
    tensors, labels = _tensors()
    scores, pair = tensors[:2]
    chains = [np.arange(n) - 1 for n in LENGTHS]  # a tree that is a chain
    how = {"lengths": LENGTHS, "graph": Tree(), "structure": chains}
    expected = crf_loss(scores, pair, labels, LENGTHS)
    loss = crf_loss(scores, pair, labels, **how)
    torch.testing.assert_close(loss, expected)
    for found, right in zip(
        _gradients(loss, tensors[:2]), _gradients(expected, tensors[:2]), strict=True
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
        _gradients(log_z.sum(), (scores, pair)),
        _gradients(expected.sum(), (scores, pair)),
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
        _gradients(loss, (scores, pair)), _gradients(expected, (scores, pair)), strict=True
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
    with pytest.raises(TypeError, match=r"exp_oracle is not available.*smoothing=None"):
        crf_loss(scores, None, links, **how)


# Layers


def _set(crf, tensors):
    with torch.no_grad():
        for name, value in zip(
            ("transitions", "start_transitions", "end_transitions"), tensors[1:], strict=True
        ):
            getattr(crf, name).copy_(value)
    return crf


def _peer():
    torchcrf = pytest.importorskip("torchcrf")
    return torchcrf.CRF


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.filterwarnings("ignore:where received a uint8")
def test_crf_takes_the_place_of_pytorch_crf(batch_first):
    tensors, labels = _tensors()
    ours, theirs = CRF(3, batch_first).double(), _peer()(3, batch_first).double()
    theirs.load_state_dict(_set(ours, tensors).state_dict())
    mask = _mask() if batch_first else _mask().T
    emissions = _padded(tensors[0], batch_first=batch_first)
    tags = _padded(labels, batch_first=batch_first)
    for reduction in ("sum", "mean", "token_mean", "none"):
        found, right = (crf(emissions, tags, mask, reduction) for crf in (ours, theirs))
        torch.testing.assert_close(found, right)
    gradients = [
        torch.autograd.grad(crf(emissions, tags, mask), [emissions, *crf.parameters()])
        for crf in (ours, theirs)
    ]
    names = [[name for name, _ in crf.named_parameters()] for crf in (ours, theirs)]
    torch.testing.assert_close(gradients[0][0], gradients[1][0])
    torch.testing.assert_close(
        dict(zip(names[0], gradients[0][1:], strict=True)),
        dict(zip(names[1], gradients[1][1:], strict=True)),
    )
    assert ours.decode(emissions, mask) == theirs.decode(emissions, mask)


def test_forbidden_steps():
    crf = CRF(3, batch_first=True, forbidden=[(0, 1), (None, 2), (1, None)])
    emissions = torch.zeros(1, 3, 3)
    emissions[0, 0, 2] = emissions[0, 1, 1] = emissions[0, 2, 1] = 5.0
    (best,) = crf.decode(emissions)
    assert best[0] != 2
    assert best[-1] != 1
    assert (0, 1) not in list(pairwise(best))
    share = crf.marginals(emissions)
    assert share[0, 0, 2] == 0 == share[0, 2, 1]
    ok = torch.tensor([[1, 1, 0]])
    assert torch.isfinite(crf(emissions, ok))
    for tags, message in (
        ([[1, 0, 1]], r"^labels: sample 0, node 1 has the forbidden step \(0, 1\)"),
        ([[2, 1, 0]], "label 2, forbidden at its first node"),
        ([[1, 1, 1]], "label 1, forbidden at its last node"),
    ):
        with pytest.raises(ValueError, match=message):
            crf(emissions, torch.tensor(tags))


def test_a_scheme_and_names_of_labels():
    crf = CRF(3, True, forbidden="iob2", labels=["O", "I-X", "B-X"])
    emissions = torch.tensor([[[0.0, 5.0, 1.0], [0.0, 5.0, 1.0]]])
    assert crf.decode(emissions) == [[2, 1]]
    for labels in (None, ["O", "I-X"], ["O", "O", "I-X"]):
        with pytest.raises(ValueError, match=r"not a label of this scheme|3 different names"):
            CRF(3, forbidden="iob2", labels=labels)


def test_crf_on_trees():
    crf = CRF(3, graph=Tree()).double()
    assert [name for name, _ in crf.named_parameters()] == ["transitions"]
    tensors, labels = _tensors()
    star = [[-1, 0, 0], [-1], [-1, 0, 0, 0]]
    value = crf(tensors[0], labels, lengths=LENGTHS, structure=star)
    expected = -crf_loss(
        tensors[0], crf.transitions, labels, LENGTHS, graph=Tree(), structure=star, reduction="sum"
    )
    assert torch.equal(value, expected)
    assert [len(p) for p in crf.decode(tensors[0], lengths=LENGTHS, structure=star)] == LENGTHS
    for wrong in ({"ends": True}, {"forbidden": [(0, 1)]}):
        with pytest.raises(ValueError, match="for chains"):
            CRF(3, graph=Tree(), **wrong)


def test_a_tagger_learns():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    words = [torch.tensor(rng.integers(6, size=n)) for n in (5, 3, 6, 4)]
    # A tag that depends on the word before: nothing that one word tells.
    tags = [torch.tensor([0, *(w[:-1] % 2).tolist()]) for w in words]
    table = torch.nn.Embedding(6, 8)
    rnn = torch.nn.LSTM(8, 8, batch_first=True, bidirectional=True)
    head, crf = torch.nn.Linear(16, 2), CRF(2, batch_first=True)
    module = torch.nn.ModuleList([table, rnn, head, crf])
    step = torch.optim.Adam(module.parameters(), lr=0.05)
    lengths = [len(w) for w in words]
    X = torch.nn.utils.rnn.pad_sequence(words, batch_first=True)
    y = torch.nn.utils.rnn.pad_sequence(tags, batch_first=True, padding_value=-100)
    for _ in range(40):
        step.zero_grad()
        loss = -crf(head(rnn(table(X))[0]), y, lengths=lengths, reduction="mean")
        loss.backward()
        step.step()
    assert crf.decode(head(rnn(table(X))[0]), lengths=lengths) == [t.tolist() for t in tags]
    copy = pickle.loads(pickle.dumps(crf))
    assert torch.equal(copy.transitions, crf.transitions)
    assert "graph=Chain()" in repr(copy)


# Modules as score maps


class _Recurrent(torch.nn.Module):
    """A map that is not row by row, with an operation that has no forward derivative."""

    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.GRU(2, 4, bidirectional=True)
        self.drop = torch.nn.Dropout(0.5)
        self.head = torch.nn.Linear(8, 3)
        self.head.bias.requires_grad_(False)

    def forward(self, rows):
        return self.head(self.drop(self.rnn(rows)[0]))


def _perceptron():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.ELU(), torch.nn.Linear(5, 3))


@pytest.mark.parametrize("kind", [_perceptron, _Recurrent])
@pytest.mark.parametrize("forward", [True, False])
def test_products_of_a_module_map_equal_differences(kind, forward):
    rng = np.random.default_rng(0)
    score_map = ModuleMap(kind(), rowwise=kind is _perceptron, device="cpu")
    params, rows = score_map.initialise(2, 3, rng), rng.normal(size=(6, 2))
    score_map._has_forward_derivative = forward
    tangent, cotangent = rng.normal(size=params.size), rng.normal(size=(6, 3))
    there = score_map.linearise(params, rows)
    step = 1e-5 * tangent
    changes = score_map.scores(params + step, rows) - score_map.scores(params - step, rows)
    np.testing.assert_allclose(there.jvp(tangent), changes / 2e-5, atol=1e-7)
    np.testing.assert_allclose(
        there.vjp(cotangent) @ tangent, np.sum(cotangent * there.jvp(tangent))
    )
    np.testing.assert_array_equal(there.scores, score_map.scores(params, rows))


def test_a_module_map_in_blocks_of_rows(monkeypatch):
    rng = np.random.default_rng(0)
    score_map = ModuleMap(_perceptron(), rowwise=True, device="cpu")
    params, rows = score_map.initialise(2, 3, rng), rng.normal(size=(7, 2))
    tangent, cotangent = rng.normal(size=params.size), rng.normal(size=(7, 3))
    whole = score_map.linearise(params, rows)
    expected = whole.scores, whole.jvp(tangent), whole.vjp(cotangent)
    monkeypatch.setattr("skstruct.torch.score_map._BLOCK", 3)
    found = (
        score_map.scores(params, rows),
        score_map.jvp(params, rows, tangent),
        score_map.vjp(params, rows, cotangent),
    )
    for part, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, right)


def test_a_module_map_leaves_the_module_as_it_is():
    module = _perceptron().train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    score_map = ModuleMap(module, device="cpu")
    params = score_map.initialise(2, 3, np.random.default_rng(0))
    made = score_map.to_module(params + 1.0)
    assert module.training
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
        torch.testing.assert_close(made.state_dict()[name], value + 1.0)
    copy = pickle.loads(pickle.dumps(score_map))
    rows = np.ones((2, 2))
    np.testing.assert_array_equal(copy.scores(params, rows), score_map.scores(params, rows))


def test_modules_that_are_not_what_they_say_are_refused():
    X, y = np.random.default_rng(0).normal(size=(6, 2)), [0, 1, 0, 1, 0, 1]
    layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softmax(0))
    with pytest.raises(ValueError, match="says rowwise=True, but"):
        ProxLinearSSVM("multiclass", ModuleMap(layers, rowwise=True)).fit(X, y)
    with pytest.raises(ValueError, match="lazy layers"):
        ProxLinearSSVM("multiclass", torch.nn.LazyLinear(2)).fit(X, y)


def test_a_module_that_works_in_place_leaves_the_features_alone():
    torch.manual_seed(0)
    layers = torch.nn.ReLU(inplace=True), torch.nn.Linear(2, 2)
    X = np.random.default_rng(0).normal(size=(6, 2))
    before = X.copy()
    svm = ProxLinearSSVM("multiclass", torch.nn.Sequential(*layers), max_iter=1, tol=1e9)
    svm.fit(X, [0, 1, 0, 1, 0, 1]).predict(X)
    np.testing.assert_array_equal(X, before)


def test_bad_modules():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match=r"module must be a torch.nn.Module, got str"):
        ModuleMap("mlp").initialise(2, 3, rng)
    with pytest.raises(ValueError, match="no parameters that need a gradient"):
        ModuleMap(torch.nn.ELU()).initialise(2, 3, rng)
    score_map = ModuleMap(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Flatten(0)))
    params = score_map.initialise(2, 3, rng)
    with pytest.raises(ValueError, match=r"shape \(n_rows, n_labels\) for 4 rows, got \(12,\)"):
        score_map.scores(params, np.ones((4, 2)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_prox_linear_trains_a_module():
    X, y = random_sequences(np.random.default_rng(7), n_samples=12)
    width, n_labels = X[0].shape[1], np.unique(np.concatenate(y)).size
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(width, 4), torch.nn.ELU(), torch.nn.Linear(4, n_labels)
    )
    common = {"C": 1.0, "max_iter": 3, "random_state": 0}
    svm = ProxLinearSSVM(score_map=ModuleMap(module, rowwise=True), **common).fit(X, y)
    by_sample = ProxLinearSSVM(score_map=module, **common).fit(X, y)
    np.testing.assert_allclose(by_sample.score_params_, svm.score_params_, rtol=1e-6, atol=1e-8)
    assert svm.history_["objective"][-1] < svm.history_["objective"][0]
    assert np.mean(np.concatenate(svm.predict(X)) == np.concatenate(y)) > 0.5
    trained = svm.score_map_.to_module(svm.score_params_).double()
    copy = pickle.loads(pickle.dumps(svm))
    scores = trained(torch.from_numpy(np.asarray(X[0]))).detach().numpy()
    np.testing.assert_allclose(copy.score_map_.scores(copy.score_params_, X[0]), scores, atol=1e-5)
    assert all(map(np.array_equal, copy.predict(X), svm.predict(X)))
    narrow = torch.nn.Linear(width, n_labels + 1)
    with pytest.raises(ValueError, match="ModuleMap must give scores of shape"):
        ProxLinearSSVM(score_map=narrow).fit(X, y)


def test_rooms_are_shared_and_forgotten(monkeypatch):
    made = []

    def make():
        made.append(np.zeros(10))
        return (made[-1], (made[-1],))

    monkeypatch.setattr("skstruct.torch.problems._MOST_FLOATS", 50)
    rooms = Rooms()
    first = rooms.take("a", make)
    rooms.give("a", first)
    assert rooms.take("a", make) is first
    assert rooms.take("a", make) is not first
    for key in "abc":
        rooms.give(key, make())
    n_made = len(made)
    rooms.take("c", make)
    assert len(made) == n_made
    rooms.take("a", make)  # the third was one too many
    assert len(made) == n_made + 1
