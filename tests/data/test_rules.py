"""Rules as automata, against their definitions."""

import itertools
import pickle
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skstruct import AtLeastOnce, AtMostOnce, Before, Exactly, Pattern
from skstruct.data import rules as rules_module
from skstruct.data.rules import (
    TooManyStates,
    automaton_of,
    broken_rules,
    clashing_rules,
    product_of,
    read_rules,
    single_rules,
)
from skstruct.metrics import chunks

TAGGED = ("B-A", "B-B", "E-A", "I-A", "I-B", "L-B", "O", "S-A", "U-B")
PLAIN = ("a", "b", "c")


def accepts(rule, labels, labelling):
    """Whether the automaton of a rule accepts a labelling."""
    one, state = automaton_of(rule, labels), 0
    for label in labelling:
        state = one.after[state, labels.index(label)]
        if state < 0:
            return False
    return bool(one.accepts[state])


def runs(labelling, label):
    return sum(key == label for key, _ in itertools.groupby(labelling))


@given(st.lists(st.sampled_from(TAGGED), max_size=8), st.integers(0, 3))
def test_numbers_of_chunks_are_those_of_conlleval(labelling, n):
    count = [kind for *_, kind in chunks(labelling)].count("A")
    assert accepts(AtMostOnce("A"), TAGGED, labelling) == (count <= 1)
    assert accepts(AtLeastOnce("A"), TAGGED, labelling) == (count >= 1)
    assert accepts(Exactly(n, "A"), TAGGED, labelling) == (count == n)
    # The label itself is counted by its runs.
    n_runs = runs(labelling, "I-A")
    assert accepts(AtMostOnce("I-A"), TAGGED, labelling) == (n_runs <= 1)
    for tag in ("B-A", "E-A", "S-A", "L-B", "U-B"):  # each of these begins or ends a chunk
        assert accepts(Exactly(n, tag), TAGGED, labelling) == (labelling.count(tag) == n)


def test_signs_of_patterns_that_name_classes_are_doubted():
    classes = np.array([".", "DT", "NN"])
    with pytest.warns(UserWarning, match=r"'\.' is any label, and the name of a class: quote it"):
        single_rules([Pattern("DT NN* .")], classes)
    with pytest.warns(UserWarning, match=r"'\*' is a sign of patterns, and the name"):
        single_rules([Pattern("a*")], np.array(["*", "a"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single_rules([Pattern('.* NN "." .+')], classes)
        single_rules([Pattern("a . b*")], np.array(["a", "b"]))


@given(st.lists(st.sampled_from(PLAIN), max_size=8), st.integers(0, 3))
def test_numbers_of_runs_and_order(labelling, n):
    assert accepts(Exactly(n, "a"), PLAIN, labelling) == (runs(labelling, "a") == n)
    pairs = itertools.combinations(labelling, 2)
    assert accepts(Before("a", "b"), PLAIN, labelling) == (("b", "a") not in set(pairs))


@given(st.lists(st.sampled_from(TAGGED), max_size=8))
def test_order_of_kinds(labelling):
    kinds = [label[2:] for label in labelling]
    obeys = ("B", "A") not in set(itertools.combinations(kinds, 2))
    assert accepts(Before("A", "B"), TAGGED, labelling) == obeys


expressions = st.recursive(
    st.sampled_from([*PLAIN, "."]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}) {pair[1]}"),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]} {pair[1]}"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
    ),
    max_leaves=8,
)


@given(expressions, st.lists(st.lists(st.sampled_from(PLAIN), max_size=6), min_size=8, max_size=8))
def test_patterns_are_regular_expressions(pattern, labellings):
    known = re.compile(pattern.replace(" ", ""))
    for labelling in labellings:
        matches = known.fullmatch("".join(labelling)) is not None
        assert accepts(Pattern(pattern), PLAIN, labelling) == matches, labelling


RULES = [
    (AtMostOnce("A"), TAGGED),
    (Exactly(2, "A"), TAGGED),
    (Before("A", "B"), TAGGED),
    (Pattern("B-A (I-A)* O* B-B"), TAGGED),
    (Pattern("(A+ O?)* | B+"), TAGGED),
    (AtLeastOnce("a"), PLAIN),
    (Pattern("(a|b)* a (a|b) (a|b)"), PLAIN),
]


@pytest.mark.parametrize(("rule", "labels"), RULES, ids=str)
def test_automata_are_minimal(rule, labels):
    """Each state is reached, leads to an end, and no two have the same continuations."""
    one = automaton_of(rule, labels)
    reached = {0}
    for _ in one.after:
        reached |= set(one.after[list(reached)].ravel()) - {-1}
    assert reached == set(range(len(one.after)))
    table = np.append(one.accepts, False)[:, None]  # the last is the dead state
    following = np.vstack([one.after, np.full(len(labels), -1)])
    for _ in one.after:
        table = np.hstack([table, table[following].reshape(len(table), -1)])
        table = np.unique(table, axis=1)
    assert len(np.unique(table, axis=0)) == len(table)


def test_sizes_that_are_known():
    sizes = [len(automaton_of(rule, labels).after) for rule, labels in RULES]
    assert sizes == [3, 5, 2, 4, 4, 2, 8]
    assert len(automaton_of(Pattern("a"), ("b", "a")).after) == 2


@pytest.mark.parametrize("labels", [TAGGED, PLAIN])
def test_at_most_once_without_a_label_is_one_rule_for_each(labels):
    classes = np.array([*labels, "O"] if labels is PLAIN else labels)
    names = ["A", "B"] if labels is TAGGED else [*PLAIN]
    found = single_rules([AtMostOnce(), AtMostOnce(names[0])], classes)
    assert sorted(rule.label for rule in found) == names


def test_names_that_are_kinds_and_labels():
    """Who says B-X may mean either: no rule is left out or means something else unsaid."""
    labels = ("B-B-X", "B-O", "B-X", "I-B-X", "I-O", "O")
    assert accepts(AtMostOnce("X"), labels, ["B-X", "O", "B-B-X"])
    for name in ("B-X", "O"):
        with pytest.raises(ValueError, match=f"'{name}' is a label and a kind of chunks"):
            automaton_of(AtMostOnce(name), labels)
    assert {rule.label for rule in AtMostOnce()._parts(labels)} == {"B-X", "O", "X"}


def test_long_patterns_are_read_in_time():
    one = automaton_of(Pattern("a? " * 600), ("a", "b"))
    assert one.after.shape == (601, 2)


def test_clashes_of_rules_whose_rest_is_too_large(monkeypatch):
    rules = [Exactly(0, "a"), AtLeastOnce("a"), Exactly(3, "b"), Exactly(3, "c")]
    monkeypatch.setattr(rules_module, "_MOST_PAIRS", 9)
    every = np.ones((4, 3), dtype=bool)
    found = clashing_rules(rules, np.array(PLAIN), np.ones((3, 3), dtype=bool), every)
    assert {Exactly(0, "a"), AtLeastOnce("a")} <= {*found}


def test_labels_of_other_types():
    labels = (1, 2, 3)
    assert accepts(AtMostOnce(1), labels, [1, 1, 2])
    assert not accepts(Pattern("1+ 2"), labels, [1, 3])
    assert accepts(Pattern("1+ '2'"), labels, [1, 1, 2])
    assert accepts(
        Pattern("""'a b' "''" . '.' '*'"""), ("a b", "''", ".", "*"), ["a b", "''", "*", ".", "*"]
    )
    # True and 1 are equal, and equal are the rules; what they are called is not.
    assert accepts(Pattern("True+"), (False, True), [True])
    with pytest.raises(ValueError, match="unknown label 'True'; the classes are"):
        automaton_of(Pattern("True+"), (0, 1))
    # Not all labels are tags of chunks: there are no kinds.
    with pytest.raises(ValueError, match="unknown label 'mail'; the classes are"):
        automaton_of(AtMostOnce("mail"), ("E-mail", "name"))


@given(st.data())
def test_products_accept_what_all_rules_accept(data):
    rules = data.draw(
        st.lists(st.sampled_from([r for r, labels in RULES if labels is PLAIN]), max_size=3)
    )
    rules += data.draw(st.lists(st.builds(AtMostOnce, st.sampled_from(PLAIN)), max_size=2))
    labelling = data.draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=7))
    product, codes = product_of(rules, np.array(PLAIN)), [PLAIN.index(label) for label in labelling]
    q = product.first[codes[0]]
    for code in codes[1:]:
        q = product.after[q, code] if q >= 0 else q
    obeys = q >= 0 and product.ends[q] > 0
    assert obeys == all(accepts(rule, PLAIN, labelling) for rule in rules)
    assert (np.diff(product.labels) >= 0).all()
    broken = broken_rules(rules, np.array(PLAIN), np.array(codes), np.array([0, 0, len(codes)]))
    assert not broken[0].any()  # a sample without nodes
    assert broken[1].tolist() == [not accepts(rule, PLAIN, labelling) for rule in rules]


CLASHES = [
    AtMostOnce("a"),
    AtLeastOnce("a"),
    AtLeastOnce("b"),
    Exactly(0, "a"),
    Before("a", "b"),
    Before("b", "a"),
    Exactly(2, "c"),
    Pattern(". . ."),
]


@given(st.lists(st.sampled_from(CLASHES), unique=True, max_size=6), st.integers(1, 4), st.data())
def test_clashing_rules_are_a_smallest_set(rules, n, data):
    allowed = np.array(
        data.draw(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=n, max_size=n))
    )
    steps = np.array(data.draw(st.lists(st.booleans(), min_size=9, max_size=9))).reshape(3, 3)

    def is_feasible(some):
        return any(
            all(accepts(rule, PLAIN, [PLAIN[k] for k in codes]) for rule in some)
            for codes in itertools.product(range(3), repeat=n)
            if allowed[np.arange(n), codes].all() and steps[codes[:-1], codes[1:]].all()
        )

    if is_feasible(rules):
        return
    found = clashing_rules(rules, np.array(PLAIN), steps, allowed)
    assert not is_feasible(found)
    assert all(is_feasible([other for other in found if other is not rule]) for rule in found)


def test_rules_are_plain_values():
    for rule, _ in RULES:
        assert pickle.loads(pickle.dumps(rule)) == rule
        assert eval(repr(rule)) == rule
        assert hash(rule) == hash(pickle.loads(pickle.dumps(rule)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Exactly(-1, "a"), "Exactly: n must be an integer of at least 0, got -1"),
        (lambda: Exactly(True, "a"), "Exactly: n must be"),
        (lambda: Pattern("a ("), "a parenthesis is not closed"),
        (lambda: Pattern("(a"), "a parenthesis is not closed"),
        (lambda: Pattern("a)"), r"'\)' without a beginning"),
        (lambda: Pattern("* a"), r"'\*' has nothing before it"),
        (lambda: Pattern("a | +"), r"'\+' has nothing before it"),
        (lambda: Pattern(" "), "no labels"),
        (lambda: Pattern("()"), "no labels"),
        (lambda: Pattern("(" * 2000 + "a" + ")" * 2000), "parentheses are nested too deeply"),
        (lambda: Pattern("a " * 5000), "more than 4,096 names and signs"),
        (
            lambda: automaton_of(AtMostOnce("C"), TAGGED),
            r"unknown label 'C'.*the kinds \['A', 'B'\]",
        ),
        (lambda: automaton_of(Pattern("a d"), PLAIN), r"unknown label 'd'; the classes are .*\]$"),
        (
            lambda: automaton_of(Pattern("a,b"), PLAIN),
            "'a,b'; .*; in a pattern put spaces",
        ),
        (lambda: automaton_of(Before("A", "I-A"), TAGGED), "have a label in common"),
        (lambda: automaton_of(Exactly(10**4, "a"), PLAIN), "more than 4,096 states"),
        (
            lambda: automaton_of(Pattern("(a|b)* a" + " (a|b)" * 14), PLAIN),
            "more than 4,096 states",
        ),
    ],
)
def test_bad_rules(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("rules", [AtMostOnce(), "AtMostOnce", ["a"], [AtMostOnce], 3])
def test_what_is_no_list_of_rules(rules):
    with pytest.raises(TypeError, match=r"rules must be a list of rules such as \[AtMostOnce"):
        read_rules(rules)
    assert read_rules(None) == read_rules([]) == ()
    for label in (["a"], np.array(["a"]), {}):
        with pytest.raises(TypeError, match="a label must be a str, a number or a bool"):
            read_rules([AtMostOnce(label)])
    with pytest.raises(TypeError, match="pattern must be a str"):
        Pattern(3)


def test_products_that_are_too_large_say_how_large(monkeypatch):
    classes = np.array([f"c{k}" for k in range(30)])
    with pytest.raises(TooManyStates, match=r"states on 30 labels, more than 2,048"):
        product_of(single_rules([AtMostOnce()], classes), classes)
    monkeypatch.setattr(rules_module, "_MOST_PAIRS", 4)
    with pytest.raises(TooManyStates, match=r"AtMostOnce\(label='a'\) has 5 states on 3 labels"):
        product_of([AtMostOnce("a")], np.array(PLAIN))
