"""Layers of skstruct.torch, and modules as score maps."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skstruct import Chain, ProxLinearSSVM, Tree, decode, log_partition
from skstruct.testing import random_sequences
from skstruct.torch import CRF, ModuleMap, crf_loss
from skstruct.torch.problems import Rooms
from tests.helpers.torch_cases import LENGTHS, make_mask, make_tensors, pad

# torch.func.jvp itself compiles a decomposition so.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


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
    tensors, labels = make_tensors()
    ours, theirs = CRF(3, batch_first).double(), _peer()(3, batch_first).double()
    theirs.load_state_dict(_set(ours, tensors).state_dict())
    mask = make_mask() if batch_first else make_mask().T
    emissions = pad(tensors[0], batch_first=batch_first)
    tags = pad(labels, batch_first=batch_first)
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


@pytest.mark.filterwarnings("ignore:where received a uint8")
@pytest.mark.parametrize("n_labels", [4, 40])
def test_functions_of_plain_arrays_equal_pytorch_crf(n_labels):
    """Its parameters as transitions, start and stop; a band, where there are many labels."""
    torch.manual_seed(n_labels)
    crf, lengths = _peer()(n_labels, batch_first=True).double(), [9, 4, 1]
    emissions, mask = torch.randn(3, 9, n_labels).double(), make_mask(lengths)
    labels = torch.arange(n_labels)
    with torch.no_grad():
        crf.transitions[(labels[:, None] - labels).abs() > 3] = -1e4
        of_zeros = [
            emissions[i, :n, 0].sum() + (n - 1) * crf.transitions[0, 0]
            for i, n in enumerate(lengths)
        ]
        ends = crf.start_transitions[0] + crf.end_transitions[0]
        loss = -crf(emissions, torch.zeros(3, 9).long(), mask, reduction="none")
    table = torch.where(crf.transitions > -1e4, crf.transitions, -torch.inf)
    chain = {"transitions": table, "start": crf.start_transitions, "stop": crf.end_transitions}
    found = decode(emissions, **chain, lengths=lengths)
    assert [row[row >= 0].tolist() for row in found] == crf.decode(emissions, mask)
    log_z = log_partition(emissions, **chain, lengths=lengths)
    np.testing.assert_allclose(log_z, loss + torch.stack(of_zeros) + ends)


def test_crf_has_the_names_of_pytorch_crf():
    crf = CRF(num_tags=4)
    assert (crf.num_tags, crf.batch_first) == (4, False)
    shapes = {name: tuple(value.shape) for name, value in crf.named_parameters()}
    assert shapes == {
        "transitions": (4, 4),
        "start_transitions": (4,),
        "end_transitions": (4,),
    }
    assert repr(crf) == "CRF(num_tags=4)"
    assert repr(CRF(2, True, graph=Tree())) == "CRF(num_tags=2, batch_first=True, graph=Tree())"
    rules = CRF(2, forbidden=[(0, 1)])
    assert repr(rules) == "CRF(num_tags=2, graph=Chain(forbidden=((0, 1),)))"
    assert repr(CRF(2, ends=False)) == "CRF(num_tags=2, ends=False)"
    with pytest.raises(ValueError, match="invalid number of tags: -1"):
        CRF(-1)
    with pytest.raises((TypeError, ValueError), match="num_tags must be an integer"):
        CRF(2.5)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("call", ["forward", "decode", "marginals"])
def test_crf_has_the_messages_of_pytorch_crf(call, batch_first):
    crf = CRF(3, batch_first)

    def run(emissions, mask=None, tags=None, **options):
        if call == "forward":
            tags = torch.zeros(emissions.shape[:2]).long() if tags is None else tags
            return crf(emissions, tags, mask, **options)
        return getattr(crf, call)(emissions, mask, **options)

    emissions = torch.zeros(2, 2, 3)
    for given, message in (
        ({"emissions": torch.zeros(2, 3)}, "emissions must have dimension of 3, got 2.*lengths"),
        ({"emissions": torch.zeros(2, 2, 4)}, "expected last dimension of emissions is 3, got 4"),
        (
            {"mask": torch.ones(1, 2).bool()},
            r"first two dimensions of emissions and mask must match, got \(2, 2\) and \(1, 2\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            run(**({"emissions": emissions} | given))
    assert len(run(torch.zeros(4, 3), tags=torch.zeros(4).long(), lengths=[4], **_none(call)))
    if call == "forward":
        message = r"emissions and tags must match, got \(2, 2\) and \(1, 2\)"
        with pytest.raises(ValueError, match=message):
            run(emissions, tags=torch.zeros(1, 2).long())
        with pytest.raises(ValueError, match=r"invalid reduction: foo.*token_mean"):
            run(emissions, reduction="foo")


def _none(call):
    """One value per sample, so that all calls return something with a length."""
    return {"reduction": "none"} if call == "forward" else {}


# The compiler looks at .grad, and hides the warning unless it is an error.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("graph", ["chain", Chain(forbidden=[(0, 1)])], ids=str)
def test_torch_compile_leaves_the_layer_alone(graph):
    torch.manual_seed(0)
    linear, crf = torch.nn.Linear(4, 3), CRF(3, batch_first=True, graph=graph)
    x, tags, traced = torch.randn(2, 5, 4), torch.zeros(2, 5).long(), []

    def backend(module, inputs):
        traced.extend(str(node.target) for node in module.graph.nodes)
        return module.forward

    def loss(x):
        return -crf(linear(x), tags)

    found = torch.compile(loss, backend=backend)(x)
    assert any("linear" in name for name in traced)
    assert not any("numpy" in name or "wrapped" in name for name in traced), traced
    torch.testing.assert_close(found, loss(x))
    parameters = [*linear.parameters(), *crf.parameters()]
    for one, other in zip(
        torch.autograd.grad(found, parameters),
        torch.autograd.grad(loss(x), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    decode = torch.compile(lambda x: crf.decode(linear(x)), backend=backend)
    assert decode(x) == crf.decode(linear(x))
    share = torch.compile(lambda x: crf.marginals(linear(x)), backend=backend)(x)
    torch.testing.assert_close(share, crf.marginals(linear(x)))


@pytest.mark.parametrize("graph", ["chain", Tree()])
def test_autocast_rounds_nothing_but_the_emissions(graph):
    tensors, labels = make_tensors(dtype=torch.float32)
    crf = CRF(3, batch_first=True, graph=graph)
    structure = [[-1, 0, 1], [-1], [-1, 0, 1, 2]] if isinstance(graph, Tree) else None
    linear, tags = torch.nn.Linear(3, 3), pad(labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        emissions = linear(pad(tensors[0]))
        loss = -crf(emissions, tags, make_mask(), structure=structure)
        found = crf.marginals(emissions, make_mask(), structure=structure)
        paths = crf.decode(emissions, make_mask(), structure=structure)
    assert emissions.dtype == torch.bfloat16
    double = CRF(3, batch_first=True, graph=graph).double()
    double.load_state_dict(crf.state_dict())
    exact = -double(emissions.double(), tags, make_mask(), structure=structure)
    assert (loss.dtype, found.dtype) == (torch.float32, torch.float32)
    assert torch.equal(loss, exact.float())
    right = double.marginals(emissions.double(), make_mask(), structure=structure)
    assert torch.equal(found, right.float())
    assert paths == double.decode(emissions.double(), make_mask(), structure=structure)
    own = torch.autograd.grad(loss, [emissions, *crf.parameters()])
    reference = torch.autograd.grad(exact, [emissions, *double.parameters()])
    for gradient, expected in zip(own, reference, strict=True):
        assert torch.equal(gradient, expected.to(gradient.dtype))
    assert [g.dtype for g in own[1:]] == [torch.float32] * len(own[1:])


def test_a_module_map_under_autocast():
    rng = np.random.default_rng(0)
    score_map = ModuleMap(_perceptron(), rowwise=True, device="cpu")
    params, rows = score_map.initialise(2, 3, rng), rng.normal(size=(6, 2))
    tangent, cotangent = rng.normal(size=params.size), rng.normal(size=(6, 3))

    def products():
        there = score_map.linearise(params, rows)
        return there.scores, there.jvp(tangent), there.vjp(cotangent)

    expected = products()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(map(np.array_equal, products(), expected))


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
    tensors, labels = make_tensors()
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
    assert repr(copy) == "CRF(num_tags=2, batch_first=True)"


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


def test_a_module_whose_output_is_bfloat16():
    class Low(torch.nn.Linear):
        def forward(self, rows):
            return super().forward(rows).bfloat16()

    score_map = ModuleMap(Low(2, 3), rowwise=True, device="cpu")
    params = score_map.initialise(2, 3, np.random.default_rng(0))
    there = score_map.linearise(params, np.ones((4, 2)))
    assert there.scores.shape == there.jvp(params).shape == (4, 3)
    assert there.vjp(np.ones((4, 3))).shape == params.shape


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
