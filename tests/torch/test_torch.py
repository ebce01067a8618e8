"""Structured losses and layers for PyTorch. Run with PyTorch installed; skipped without."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skstruct import Chain, Pairwise, Tree
from skstruct.testing import all_labellings
from skstruct.torch import crf_loss, decode, log_partition, marginals, smoothed_hinge_loss
from tests.helpers.torch_cases import LENGTHS, gradients_of, make_mask, make_tensors, pad

# torch.func.jvp itself compiles a decomposition so.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


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


@pytest.mark.parametrize("kind", ["crf", "hinge", "entropy"])
def test_losses_and_gradients_equal_enumeration(kind):
    tensors, labels = make_tensors()
    expected = _reference(kind, tensors, labels)
    none = _loss(kind, tensors, labels, LENGTHS, reduction="none")
    torch.testing.assert_close(none, expected)
    shares = torch.tensor([0.3, -2.0, 1.0], dtype=torch.float64)
    for found, right in zip(
        gradients_of(none @ shares, tensors), gradients_of(expected @ shares, tensors), strict=True
    ):
        torch.testing.assert_close(found, right)
    by = {"sum": 1, "mean": len(LENGTHS), "token_mean": sum(LENGTHS)}
    for reduction, n in by.items():
        expected = _reference(kind, tensors, labels).sum() / n
        loss = _loss(kind, tensors, labels, LENGTHS, reduction=reduction)
        torch.testing.assert_close(loss, expected)
        for found, right in zip(
            gradients_of(3 * loss, tensors), gradients_of(3 * expected, tensors), strict=True
        ):
            torch.testing.assert_close(found, right)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradcheck(reduction):
    tensors, labels = make_tensors(seed=1)

    def loss(*tensors):
        return _loss("crf", tensors, labels, LENGTHS, reduction=reduction)

    assert torch.autograd.gradcheck(loss, tensors)


def test_l2_smoothing_is_that_of_casimir():
    tensors, labels = make_tensors(seed=2)
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
    tensors, labels = make_tensors()
    mask = make_mask() if batch_first else make_mask().T
    how = {"mask": mask} if by_mask else {"lengths": torch.tensor(LENGTHS)}
    how["batch_first"] = batch_first
    scores = pad(tensors[0], fill=float("nan"), batch_first=batch_first)
    tags = pad(labels, fill=-100, batch_first=batch_first)
    padded = [scores, *tensors[1:]]
    expected = _loss("crf", tensors, labels, LENGTHS)
    for y in (tags, labels):
        loss = _loss("crf", padded, y, **how)
        assert loss.item() == expected.item()
    first, *rest = gradients_of(loss, padded)
    right, *others = gradients_of(expected, tensors)
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
        assert torch.equal(there[make_mask()], packed)
    assert (full[1][~mask] == -7).all()


def test_padded_labels_of_packed_scores():
    tensors, labels = make_tensors()
    tags = pad(labels, fill=-100)
    expected = _loss("crf", tensors, labels, LENGTHS)
    assert torch.equal(_loss("crf", tensors, tags, LENGTHS), expected)


def test_marginals_decode_and_log_partition_equal_enumeration():
    tensors, labels = make_tensors(seed=3)
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
    torch.testing.assert_close(gradients_of(log_z.sum(), tensors)[0], found)


def test_no_marginal_is_above_1():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(500, 3, generator=generator, dtype=torch.float64) * 5
    pair = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    found = marginals(scores, pair, [10] * 50)
    assert 0.0 <= found.min() <= found.max() <= 1.0
    torch.testing.assert_close(found.sum(dim=1), torch.ones(500, dtype=torch.float64))


def test_float32_is_computed_in_float64():
    tensors, labels = make_tensors()
    single = [tensor.detach().float().requires_grad_() for tensor in tensors]
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    loss, exact = (_loss("crf", t, labels, LENGTHS) for t in (single, double))
    assert loss.dtype == torch.float32
    assert torch.equal(loss, exact.float())
    for found, right in zip(gradients_of(loss, single), gradients_of(exact, double), strict=True):
        assert torch.equal(found, right.float())
    assert marginals(single[0], single[1], LENGTHS).dtype == torch.float32


def _log_likelihood(scores, pair, start, stop, labels, lengths):
    """pytorch-crf's recursion for packed scores, in float64."""
    scores, pair, start, stop = (t.double() for t in (scores, pair, start, stop))
    total = 0.0
    for unary, y in zip(torch.split(scores, lengths), torch.split(labels, lengths), strict=True):
        alpha = start + unary[0]
        for row in unary[1:]:
            alpha = torch.logsumexp(alpha[:, None] + pair, dim=0) + row
        steps = pair[y[:-1], y[1:]].sum() + start[y[0]] + stop[y[-1]]
        truth = unary[torch.arange(len(y)), y].sum() + steps
        total = total + truth - torch.logsumexp(alpha + stop, dim=0)
    return total


@pytest.mark.parametrize("kind", ["crf", "hinge", "entropy", "l2", "log_partition"])
@pytest.mark.parametrize("reduction", ["sum", "mean", "token_mean", "none"])
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_losses_of_low_precision_scores_are_float32(kind, reduction, low):
    tensors, labels = make_tensors()
    mixed = [t.detach().to(low if i == 0 else torch.float32) for i, t in enumerate(tensors)]
    mixed = [t.requires_grad_() for t in mixed]
    exact = [t.detach().double().requires_grad_() for t in mixed]

    def loss_of(tensors):
        if kind == "log_partition":
            ends = {"start": tensors[2], "stop": tensors[3]}
            return log_partition(*tensors[:2], LENGTHS, reduction=reduction, **ends)
        return _loss(kind, tensors, labels, LENGTHS, reduction=reduction)

    loss, expected = loss_of(mixed), loss_of(exact)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, expected.float())
    found, right = gradients_of(loss.sum(), mixed), gradients_of(expected.sum(), exact)
    for given, gradient, reference in zip(mixed, found, right, strict=True):
        assert gradient.dtype == given.dtype
        torch.testing.assert_close(gradient, reference.to(given.dtype))
    ends = {"start": mixed[2], "stop": mixed[3]}
    assert marginals(*mixed[:2], LENGTHS, **ends).dtype == torch.float32


def test_gradients_are_scaled_before_they_are_rounded():
    lengths = [1] * 3000
    scores = torch.zeros(3000, 2, dtype=torch.float16, requires_grad=True)
    labels = torch.zeros(3000, dtype=torch.long)
    loss = crf_loss(scores, torch.zeros(2, 2), labels, lengths)  # each has a part of 1 / 3000
    (2.0**17 * loss).backward()  # more than float16 has
    assert torch.equal(scores.grad[:, 0], torch.full((3000,), -(2.0**16) / 3000).half())


def test_a_float64_table_makes_the_loss_float64():
    tensors, labels = make_tensors()
    mixed = [tensors[0].detach().half().requires_grad_(), *tensors[1:]]
    exact = [mixed[0].detach().double(), *tensors[1:]]
    loss = _loss("crf", mixed, labels, LENGTHS)
    assert loss.dtype == torch.float64
    assert torch.equal(loss, _loss("crf", exact, labels, LENGTHS))
    assert [g.dtype for g in gradients_of(loss, mixed)] == [torch.float16] + [torch.float64] * 3


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_sums_of_low_precision_scores_do_not_overflow(low):
    lengths = [400, 250]
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(scale=300, size=(650, 5))).to(low).requires_grad_()
    rest = [torch.tensor(rng.normal(size=s), dtype=torch.float32) for s in ((5, 5), (5,), (5,))]
    labels = torch.tensor(rng.integers(5, size=650))
    tensors = [scores, *(t.requires_grad_() for t in rest)]
    loss = _loss("crf", tensors, labels, lengths, reduction="sum")
    expected = -_log_likelihood(*tensors, labels, lengths)
    assert expected > 65504  # the largest number of float16
    torch.testing.assert_close(loss, expected.float())
    for found, right in zip(
        gradients_of(loss, tensors), gradients_of(expected, tensors), strict=True
    ):
        torch.testing.assert_close(found, right)


def test_minus_infinity_forbids_a_label():
    tensors, labels = make_tensors()
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
    tensors, labels = make_tensors()
    for reduction in ("mean", "none"):
        loss = _loss("crf", tensors, labels, LENGTHS, reduction=reduction).sum()
        first = torch.autograd.grad(loss, tensors, create_graph=True)
        assert torch.equal(
            first[0],
            torch.autograd.grad(
                _loss("crf", tensors, labels, LENGTHS, reduction=reduction).sum(), tensors
            )[0],
        )
        with pytest.raises(RuntimeError, match=r'first derivatives only.*backend="torch"'):
            first[0].square().sum().backward()


def test_the_graph_can_be_kept_for_a_second_backward_pass():
    tensors, labels = make_tensors()
    loss = _loss("crf", tensors, labels, LENGTHS)
    first = torch.autograd.grad(loss, tensors, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(loss, tensors)))


def test_any_number_of_threads_gives_the_same_bits():
    lengths = [7] * 40
    tensors, labels = make_tensors(lengths, n_labels=120)
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            loss = _loss("crf", tensors, labels, lengths)
            found.append((loss, *gradients_of(loss, tensors), decode(*tensors[:2], lengths)))
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
        ({"mask": make_mask()}, ValueError, "mask is for padded scores"),
        ({"labels": torch.zeros(7).long()}, ValueError, r"labels has the shape \(7,\)"),
        ({"labels": torch.zeros(8)}, TypeError, "labels must be a tensor of integers"),
        ({"labels": None}, TypeError, "labels is None"),
        ({"labels": torch.tensor([0, 0, 0, 0, 0, 3, 0, 0])}, ValueError,
         "sample 2 has the label 3 at node 1; labels are 0 to 2"),
        ({"labels": torch.full((8,), -100)}, ValueError, "sample 0 is empty"),
        ({"pair": torch.zeros(3, 2)}, ValueError, r"pair must have the shape \(3, 3\)"),
        ({"pair": None}, ValueError, "pair is missing"),
        ({"pair": torch.full((3, 3), float("nan"))}, ValueError, "pair has the value nan"),
        ({"start": torch.zeros(2)}, ValueError, "start has 2 scores"),
        ({"reduction": "average"}, ValueError, "invalid reduction: average; must be"),
        ({"graph": "tree"}, TypeError, "graph must be"),
        ({"graph": Chain(boundary=True)}, ValueError, "pass the scores of the ends"),
        ({"graph": Chain(order=2)}, ValueError, "an order above 1 is for estimators"),
        ({"graph": Chain(states_per_label=2)}, ValueError, "labels of .* have several states"),
        ({"graph": Pairwise(node_types=["a"])}, ValueError, "node_types is for estimators"),
        ({"graph": Chain(forbidden="iob2")}, ValueError, "labels are numbers"),
        ({"graph": Tree()}, ValueError, "structure is missing"),
    ],
)  # fmt: skip
def test_bad_input(change, error, message):
    tensors, labels = make_tensors()
    given = {"scores": tensors[0], "pair": tensors[1], "labels": labels, "lengths": LENGTHS}
    with pytest.raises(error, match=message):
        crf_loss(**(given | change))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_not_finite(value):
    tensors, labels = make_tensors()
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
    tensors, labels = make_tensors()
    scores, tags = pad(tensors[0]), pad(labels)
    empty = make_mask()
    empty[1] = False
    for mask, message in (
        (empty, "sample 1 is empty"),
        (make_mask()[:, :3], "mask has the shape"),
    ):
        with pytest.raises(ValueError, match=message):
            crf_loss(scores, tensors[1], tags, mask=mask)
    with pytest.raises(TypeError, match="mask must be a tensor of integers, 0 and 1, or bool"):
        crf_loss(scores, tensors[1], tags, mask=make_mask().float())
    with pytest.raises(ValueError, match="lengths or mask, not both"):
        crf_loss(scores, tensors[1], tags, mask=make_mask(), lengths=LENGTHS)
    with pytest.raises(ValueError, match="sample 0 has length 5, but scores is padded to 4"):
        crf_loss(scores, tensors[1], tags, lengths=[5, 1, 2])


@pytest.mark.parametrize("field", ["strength", "n_best", "smoothing"])
def test_bad_smoothing(field):
    tensors, labels = make_tensors()
    with pytest.raises(ValueError, match=field):
        smoothed_hinge_loss(*tensors[:2], labels, LENGTHS, **{field: 0})
