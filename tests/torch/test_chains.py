"""Chains in plain operations of torch, beside compiled code, enumeration and pytorch-crf."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skstruct import Chain, Tree
from skstruct.testing import all_labellings
from skstruct.torch import (
    CRF,
    crf_loss,
    decode,
    log_partition,
    marginals,
    smoothed_hinge_loss,
    top_k,
)
from skstruct.torch.chains import Chains

# torch.jit itself, and shapes that are checked in a trace.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


def _batch(size=(4, 7, 3), dtype=torch.float64, seed=0):
    """Scores, tables by name, labels and a mask with holes and with first positions off."""
    draw = torch.Generator().manual_seed(seed)
    shapes = {"scores": size, "pair": size[2:] * 2, "start": size[2:], "stop": size[2:]}
    tensors = {
        name: torch.randn(shape, generator=draw, dtype=dtype).mul(2).requires_grad_()
        for name, shape in shapes.items()
    }
    mask = torch.rand(size[:2], generator=draw) < 0.6
    mask[:, 2] = True
    if size[0] > 2:
        mask[1] = False
        mask[1, 3] = True  # one node
        mask[2] = True
    return tensors, torch.randint(size[2], size[:2], generator=draw), mask


def _all(tensors, labels, mask, **options):
    """What all functions return, and gradients of the loss."""
    how = {"mask": mask} | {"batch_first": options.pop("batch_first", True)} | options
    loss = crf_loss(labels=labels, reduction="token_mean", **tensors, **how)
    return (
        loss,
        *torch.autograd.grad(loss, [*tensors.values()]),
        log_partition(**tensors, **how),
        marginals(**tensors, **how),
        decode(padding=-100, **tensors, **how),
        *top_k(k=4, padding=-100, **tensors, **how),
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("of", [torch.bool, torch.uint8, torch.int64])
def test_both_backends_are_equal(dtype, tolerance, batch_first, of):
    tensors, labels, mask = _batch(dtype=dtype)
    labels[0, 2], labels[1, :3], mask = -100, -100, mask.to(of)
    mask[0, 4] = 1
    with torch.no_grad():
        tensors["scores"][mask == 0] = torch.nan
    if not batch_first:
        tensors["scores"] = tensors["scores"].detach().transpose(0, 1).requires_grad_()
        labels, mask = labels.T, mask.T
    for graph in (Chain(), Chain(forbidden=((0, 1), (None, 2)))):
        if graph.forbidden:
            labels = labels.clamp(max=0)  # allowed ones
        found, right = (
            _all(tensors, labels, mask, batch_first=batch_first, graph=graph, backend=backend)
            for backend in ("torch", "numba")
        )
        for one, other in zip(found, right, strict=True):
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_nodes_beside_a_hole_are_neighbours(backend):
    tensors, labels, mask = _batch((4, 5, 3))
    how = {"mask": mask, "backend": backend, **tensors}
    losses = crf_loss(labels=labels, reduction="none", **how)
    best, values = top_k(k=3, padding=-100, **how)
    share, first = marginals(**how), decode(padding=-100, **how)
    assert torch.equal(first, best[0])
    for i, row in enumerate(mask):
        scores, n = tensors["scores"][i, row], int(row.sum())
        every = torch.tensor(all_labellings(n, 3)).long()
        total = scores[torch.arange(n), every].sum(1) + tensors["start"][every[:, 0]]
        total = total + tensors["pair"][every[:, :-1], every[:, 1:]].sum(1)
        total = total + tensors["stop"][every[:, -1]]
        truth = total[(every == labels[i, row]).all(1)][0]
        torch.testing.assert_close(losses[i], torch.logsumexp(total, 0) - truth)
        order = total.argsort(descending=True)[:3]
        torch.testing.assert_close(values[: len(order), i], total[order])
        assert torch.equal(best[: len(order), i][:, row], every[order])
        assert (best[:, i][:, ~row] == -100).all()
        if n == 1:
            assert share[i, ~row].eq(0).all()
        p = torch.softmax(total, 0)
        one_hot = torch.nn.functional.one_hot(every, 3).to(p)
        torch.testing.assert_close(share[i, row], torch.einsum("n,ntk->tk", p, one_hot))


def test_there_may_be_fewer_labellings_than_asked():
    scores, pair = torch.zeros(2, 2, 2), torch.tensor([[0.0, -torch.inf], [0.5, 0.25]])
    mask = torch.tensor([[True, True], [False, True]])
    found = [top_k(scores, pair, 4, mask=mask, backend=backend) for backend in ("torch", "numba")]
    torch.testing.assert_close(found[0][1], found[1][1])
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1].isneginf().sum(0).tolist() == [1, 2]


@pytest.mark.parametrize("function", ["loss", "marginals", "top_k"])
def test_two_derivatives(function):
    tensors, labels, mask = _batch((4, 4, 2))
    tensors["scores"] = tensors["scores"].detach().clone()
    tensors["scores"][0, 2, 1] = -torch.inf
    labels[0, 2] = 0

    def run(scores, *tables):
        # The clone keeps differences away from -inf.
        scores = torch.where(tensors["scores"].isneginf(), -torch.inf, scores)
        given = dict(zip(tensors, (scores, *tables), strict=True))
        options = {"mask": mask, "backend": "torch"}
        if function == "loss":
            return crf_loss(labels=labels, **given, **options)
        if function == "marginals":
            return marginals(**given, **options)
        values = top_k(k=2, **given, **options)[1]
        return values[0]

    given = [t.detach().nan_to_num(neginf=0.0).requires_grad_() for t in tensors.values()]
    assert torch.autograd.gradcheck(run, given)
    assert torch.autograd.gradgradcheck(run, given)


def test_what_is_not_allowed_has_no_part_in_derivatives():
    tensors, labels, mask = _batch(dtype=torch.float32)
    scores = tensors["scores"].detach().clone()
    scores[2, 3, (labels[2, 3] + 1) % 3] = torch.finfo(torch.float32).min  # as masks have it
    scores[2, 4, (labels[2, 4] + 1) % 3] = -torch.inf
    tensors["scores"] = scores.requires_grad_()
    found, right = (_all(tensors, labels, mask, backend=b)[:7] for b in ("torch", "numba"))
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert found[1][2, 3, (labels[2, 3] + 1) % 3] == 0 == found[1][2, 4, (labels[2, 4] + 1) % 3]
    none = torch.full((2, 3, 3), -torch.inf)
    none[0] = 0.0
    assert log_partition(none, tensors["pair"], backend="torch").isneginf().tolist() == [
        False,
        True,
    ]
    assert marginals(none, tensors["pair"], backend="torch").isnan().all((1, 2)).tolist() == [
        False,
        True,
    ]
    end = {"backend": "torch", "stop": torch.full((3,), -torch.inf), "lengths": [1, 2]}
    share = marginals(torch.zeros(2, 3, 3), tensors["pair"], **end)
    assert share.isnan().any(2).tolist() == [[True, False, False], [True, True, False]]
    with pytest.raises(ValueError, match=r"^sample 1: no labelling is allowed"):
        log_partition(none, tensors["pair"])
    off = torch.tensor([[True] * 3, [False] * 3])
    assert log_partition(none, tensors["pair"], mask=off, backend="torch")[1] == 0


@pytest.mark.parametrize("size", [(4, 2, 3), (4, 7, 3), (4, 64, 9)])
def test_the_scan_equals_the_recursion(size):
    tensors, _, mask = _batch((4, size[1] + 2, size[2]))
    scores, *tables = (t.detach().clone().requires_grad_() for t in tensors.values())
    short = slice(2, 2 + size[1])
    mask[1, 2] = True
    given = mask[:, short], False, *tables
    scan = Chains(scores[:, short], *given)._by_scan()
    middle = Chains(scores[:, short], *given)._to_the_middle()
    torch.testing.assert_close(scan, middle)
    for one, other in zip(
        torch.autograd.grad(scan.sum(), [scores, *tables]),
        torch.autograd.grad(middle.sum(), [scores, *tables]),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_long_chains_lose_no_digits():
    tensors, _, _ = _batch((2, 3000, 4), dtype=torch.float32)
    given = [t.detach() for t in tensors.values()]
    given = dict(zip(tensors, given, strict=True))
    for function in (marginals, log_partition):
        found, right = (function(**given, backend=b) for b in ("torch", "numba"))
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:where received a uint8")
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_half_precision_beside_pytorch_crf(low, backend):
    torch.manual_seed(0)
    peer = pytest.importorskip("torchcrf").CRF(5, batch_first=True)
    ours = CRF(5, batch_first=True, backend=backend)
    ours.load_state_dict(peer.state_dict())
    tensors, labels, _ = _batch((3, 40, 5), dtype=torch.float32)
    linear = torch.nn.Linear(5, 5)
    with torch.autocast("cpu", dtype=low):
        emissions = linear(tensors["scores"].detach() * 20)
        loss = -ours(emissions, labels)
        share = ours.marginals(emissions)
    assert (emissions.dtype, loss.dtype, share.dtype) == (low, torch.float32, torch.float32)
    exact = emissions.detach().double().requires_grad_()
    expected = -peer.double()(exact, labels)
    torch.testing.assert_close(loss, expected.float())
    names = dict(peer.named_parameters())
    found = torch.autograd.grad(loss, [emissions, *ours.parameters()])
    right = torch.autograd.grad(expected, [exact, *(names[n] for n, _ in ours.named_parameters())])
    for one, other in zip(found, right, strict=True):
        last = max(torch.finfo(one.dtype).eps, 1e-4)  # one digit may be rounded the other way
        torch.testing.assert_close(one, other.to(one.dtype), rtol=last, atol=1e-5)
    assert [g.dtype for g in found] == [low] + [torch.float32] * 3


def test_transforms_of_torch_func():
    tensors, labels, mask = _batch((4, 5, 3))
    scores, pair = tensors["scores"].detach(), tensors["pair"].detach()

    def loss(scores, labels, mask):
        return crf_loss(scores[None], pair, labels[None], mask=mask[None])

    expected = torch.autograd.grad(
        crf_loss(tensors["scores"], pair, labels, mask=mask, reduction="sum"), tensors["scores"]
    )[0]
    one_by_one = torch.func.vmap(torch.func.grad(loss))(scores, labels, mask)
    torch.testing.assert_close(one_by_one, expected)
    curvature = torch.func.hessian(loss)(scores[0], labels[0], mask[0])
    torch.testing.assert_close(curvature, curvature.permute(2, 3, 0, 1))
    best = torch.func.vmap(lambda s, m: decode(s[None], pair, mask=m[None])[0])(scores, mask)
    assert torch.equal(best, decode(scores, pair, mask=mask))
    for refused in (
        lambda s: crf_loss(s, pair, labels, mask=mask, backend="numba"),
        lambda s: smoothed_hinge_loss(s, pair, labels, mask=mask),
        lambda s: crf_loss(
            s[:, 0], pair, labels[:, 0], [4], graph=Tree(), structure=[[-1, 0, 0, 0]]
        ),
    ):
        with pytest.raises(RuntimeError, match='backend="torch" of crf_loss'):
            torch.func.grad(refused)(scores)


class _Tagger(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.crf = torch.nn.Linear(4, 3), CRF(3, batch_first=True, **options)

    def forward(self, x, mask, tags):
        emissions = self.linear(x)
        best = self.crf.decode(emissions, mask, padding=-100)
        return best, self.crf.marginals(emissions, mask), self.crf(emissions, tags, mask)


@pytest.mark.parametrize("options", [{}, {"forbidden": [(0, 1), (None, 2)]}], ids=str)
@pytest.mark.parametrize("way", ["export", "trace"])
def test_networks_with_the_layer_are_exported(options, way):
    tagger, (_, tags, mask) = _Tagger(**options), _batch()
    x = torch.randn(4, 7, 4, generator=torch.Generator().manual_seed(0))
    tags = tags * 0
    if way == "trace":
        made = torch.jit.trace(tagger, (x, mask, tags))
    else:
        shapes = ({0: torch.export.Dim("batch")},) * 3
        made = torch.export.export(tagger, (x, mask, tags), dynamic_shapes=shapes).module()
    with pytest.raises(RuntimeError, match="a trace has no lists: pass padding"):
        torch.func.vmap(lambda s: tagger.crf.decode(s[None]))(x[..., :3])
    for rows in (slice(0, 4), slice(1, 3)):
        given = x[rows], mask[rows], tags[rows]
        for found, right in zip(made(*given), tagger(*given), strict=True):
            torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)


def test_other_devices_are_left_alone():
    # Tensors of "meta" have shapes alone: whoever looks at a value fails.
    tensors, labels, mask = _batch()
    tensors = {name: t.detach().to("meta").requires_grad_() for name, t in tensors.items()}
    for how in ({"mask": mask.to("meta")}, {"lengths": [7, 1, 3, 7]}, {"lengths": labels[:, 0]}):
        how = {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in how.items()}
        crf_loss(labels=labels.to("meta"), **tensors, **how).backward()
        assert tensors["scores"].grad.device.type == "meta"
        assert marginals(**tensors, **how).shape == (4, 7, 3)
        assert [t.shape for t in top_k(k=3, **tensors, **how)] == [(3, 4, 7), (3, 4)]


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_ignored_labels_are_as_holes(backend):
    tensors, labels, mask = _batch()
    pair, ends = tensors["pair"], {n: tensors[n] for n in ("start", "stop")}
    how = {"backend": backend, "reduction": "token_mean", **ends}
    right = crf_loss(tensors["scores"], pair, labels, mask=mask, **how)
    off = torch.where(mask, labels, -100)
    for given in (off, off.int()):
        torch.testing.assert_close(crf_loss(tensors["scores"], pair, given, **how), right)
    seven = torch.where(mask, labels, 7)
    found = crf_loss(tensors["scores"], pair, seven, ignore_index=7, **how)
    torch.testing.assert_close(found, right)
    rows, lengths = tensors["scores"].flatten(0, 1), [7] * 4
    found = crf_loss(rows, pair, off.flatten(), lengths, **how)
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(crf_loss(rows, pair, off, lengths, **how), right)
    packed = [tensors["scores"], pair, labels[mask]]
    torch.testing.assert_close(crf_loss(*packed, mask=mask, **how), right)
    crf = CRF(3, batch_first=True, backend=backend).double()
    loss = crf(tensors["scores"], off)
    torch.testing.assert_close(loss, crf(tensors["scores"], labels, mask))
    hinge = {"smoothing": None, "reduction": "none"}
    found = smoothed_hinge_loss(tensors["scores"], pair, off, **hinge)
    right = smoothed_hinge_loss(tensors["scores"], pair, labels, mask=mask, **hinge)
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_labels_of_a_layer_as_lists_or_in_the_shape_of_the_input(backend, batch_first):
    tensors, _, mask = _batch()
    crf = CRF(3, batch_first, backend=backend).double()
    scores, mask = tensors["scores"], mask
    if not batch_first:
        scores, mask = scores.transpose(0, 1), mask.T
    found = crf.decode(scores, mask, padding=-100)
    assert found.shape == mask.shape
    assert torch.equal(found == -100, ~mask)
    rows = zip(found, mask, strict=True) if batch_first else zip(found.T, mask.T, strict=True)
    assert crf.decode(scores, mask) == [row[on].tolist() for row, on in rows]


def test_packed_scores():
    tensors, labels, _ = _batch((1, 9, 3))
    tensors["scores"] = tensors["scores"].detach()[0].requires_grad_()
    lengths = [4, 1, 4]
    found, right = (
        _all(tensors, labels[0], None, lengths=lengths, backend=backend)
        for backend in ("torch", "numba")
    )
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other)


def test_bad_arguments():
    tensors, labels, mask = _batch()
    scores, pair = tensors["scores"], tensors["pair"]
    for options, error, message in (
        ({"backend": "cuda"}, ValueError, "backend must be one of 'numba', 'torch', None"),
        ({"graph": Tree(), "structure": [[-1] * 7] * 4, "backend": "torch"}, ValueError,
         r'backend="torch" is for chains; Tree\(\) is compiled code'),
        ({"mask": mask.long() * 2}, ValueError, r"mask must be 0 or 1, got 2 at \(0, "),
        ({"mask": mask[:, :3], "backend": "torch"}, ValueError, "mask has the shape"),
        ({"pair": pair.where(pair != pair[1, 2], torch.inf)}, ValueError,
         r"pair has the value inf at \(1, 2\)"),
        ({"labels": labels.float(), "backend": "torch"}, TypeError, "must be a tensor of integers"),
        ({"mask": mask.float(), "backend": "torch"}, TypeError, "must be a tensor of integers, 0"),
        ({"pair": pair[:2], "backend": "torch"}, ValueError, r"pair must have the shape \(3, 3\)"),
        ({"lengths": [7, 7], "backend": "torch"}, ValueError, "lengths has 2 entries"),
        ({"lengths": [8, 7, 7, 7], "backend": "torch"}, ValueError, "sample 0 has length 8"),
        ({"reduction": "all", "backend": "torch"}, ValueError, "invalid reduction"),
    ):  # fmt: skip
        given = {"scores": scores, "pair": pair, "labels": labels} | options
        with pytest.raises(error, match=message):
            crf_loss(**given)
    for options in ({"backend": "cuda"}, {"graph": Tree(), "backend": "torch"}):
        with pytest.raises(ValueError, match="backend"):
            CRF(3, **options)
    with pytest.raises(ValueError, match=r"lengths has the shape \(2,\) for 1 samples"):
        torch.func.vmap(lambda s, n: log_partition(s[None], pair, n))(scores, labels[:, :2])


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_both_backends_refuse_wrong_shapes(backend):
    tensors, labels, _ = _batch()
    scores, pair = tensors["scores"], tensors["pair"]
    rows = {"scores": scores.flatten(0, 1), "lengths": [7] * 4}
    for options, message in (
        ({"labels": labels[:, :3]}, "labels has the shape"),
        ({"labels": labels.flatten()[1:]}, r"labels has the shape \(27,\), but .* 4 x 7 rows"),
        ({"labels": labels.T}, "labels has the shape"),
        ({"labels": labels.flatten()[1:], **rows}, r"labels has the shape \(27,\)"),
        ({"labels": labels[:, :6], **rows}, r"labels has the shape \(4, 6\)"),
        ({"labels": labels[:3], **rows}, r"labels has the shape \(3, 7\)"),
        ({"labels": labels.tolist()}, "labels must be a torch.Tensor, got list"),
        ({"scores": scores[:0], "labels": labels[:0]}, r"scores is empty, .* \(0, 7, 3\)"),
        ({"scores": scores[:, :0], "labels": labels[:, :0]}, "scores is empty"),
        ({"scores": scores[..., :0]}, "scores is empty"),
        ({"scores": scores.to_sparse()}, "scores must be a dense tensor"),
        ({"ignore_index": "O"}, "ignore_index must be an integer, got 'O'"),
    ):
        given = {"scores": scores, "pair": pair, "labels": labels, "backend": backend} | options
        with pytest.raises((TypeError, ValueError), match=message):
            crf_loss(**given)
    for call in (decode, lambda *given, **options: top_k(*given, 2, **options)):
        with pytest.raises((TypeError, ValueError), match=r"padding must be an integer, got 0\.5"):
            call(scores, pair, backend=backend, padding=0.5)
    crf = CRF(3, batch_first=True, backend=backend)
    with pytest.raises(ValueError, match="emissions is empty"):
        crf.decode(scores[:0])


@pytest.mark.parametrize("batch_first", [True, False])
def test_messages_name_positions_of_the_input(batch_first):
    tensors, labels, mask = _batch()
    scores = tensors["scores"].detach()
    mask[3] = torch.tensor([0, 0, 1, 0, 0, 1, 1])
    wrong = labels.clone()
    wrong[3, 5], scores[3, 6, 1] = 9, np.nan
    turned = (scores, wrong, labels, mask)
    if not batch_first:
        turned = [t.transpose(0, 1) for t in turned]
    scores, wrong, labels, mask = turned
    how = {"mask": mask, "batch_first": batch_first}
    with pytest.raises(ValueError, match="sample 3 has the label 9 at node 5"):
        crf_loss(scores, tensors["pair"], wrong, **how)
    with pytest.raises(ValueError, match="sample 3 has the value nan at node 6, label 1"):
        crf_loss(scores, tensors["pair"], labels, **how)
    labels[:], own = 0, labels if batch_first else labels.T
    own[3, 3:] = torch.tensor([2, 2, 1, 2])  # the step from node 5 to node 6, after a hole
    forbidden = Chain(forbidden=[(1, 2)])
    with pytest.raises(ValueError, match=r"sample 3, node 5 has the forbidden step \(1, 2\)"):
        crf_loss(scores.nan_to_num(), tensors["pair"], labels, graph=forbidden, **how)
