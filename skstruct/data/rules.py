"""Rules on whole labellings of sequences: each is a finite automaton that reads the labels."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise
from numbers import Integral
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from ..core.arguments import warn_user
from ..core.jit.kernels import kernel
from ..lite import OUTSIDE, chunk_step, tag_and_kind

# The most states of one automaton, and of a product of rules: its transition table has 32 MB.
_MOST_STATES = 4096
_MOST_PAIRS = 2048
# The most names and signs of a pattern: the work on it grows with their square.
_MOST_TOKENS = 4096


class RuleAutomaton(NamedTuple):
    """A minimal deterministic automaton; state 0 is the start."""

    # (n_states, n_labels) of int32: The state after a label, -1 where nothing accepted follows.
    after: np.ndarray
    # (n_states,) of bool: Whether a labelling may end in a state.
    accepts: np.ndarray


class TooManyStates(ValueError):
    """Rules that are too large together."""


def _minimal(after, accepts) -> RuleAutomaton:
    """The automaton without states that are not reached, or lead nowhere, or are alike (Moore)."""
    after, symbols = np.unique(after, axis=1, return_inverse=True)  # few labels differ
    reached, frontier = np.zeros(len(after), dtype=bool), np.zeros(1, dtype=np.int64)
    while frontier.size:
        reached[frontier] = True
        following = np.unique(after[frontier])
        frontier = following[(following >= 0) & ~reached[following]]
    alive = accepts.copy()
    while True:
        more = alive | (alive[after] & (after >= 0)).any(axis=1)
        if (more == alive).all():
            break
        alive = more
    kept = reached & alive
    kept[0] = True
    place = np.append(np.cumsum(kept) - 1, -1)
    after = place[np.where((after >= 0) & alive[after], after, -1)][kept]
    after, accepts = np.where((after >= 0) & alive[kept][after], after, -1), accepts[kept]
    block, n_blocks = accepts.astype(np.int64), 0
    while True:
        seen = np.column_stack([block, np.where(after >= 0, block[after], -1)])
        _, first, block = np.unique(seen, axis=0, return_index=True, return_inverse=True)
        block = np.argsort(np.argsort(first))[block.ravel()]  # the start stays first
        if first.size == n_blocks:
            break
        n_blocks = first.size
    first = np.sort(first)
    after = np.where(after >= 0, block[after], -1)[first]
    after = after[:, symbols.ravel()]
    return RuleAutomaton(np.ascontiguousarray(after, dtype=np.int32), accepts[first])


def _explored(start: Hashable, step: Callable, accepts: Callable, symbols, rule) -> RuleAutomaton:
    """The automaton of ``step(state, symbol)``, None where it ends; `symbols` are of labels."""
    place, rows = {start: 0}, []
    for state in (states := [start]):
        row = []
        for symbol in range(int(symbols.max()) + 1):
            following = step(state, symbol)
            if following is not None and following not in place:
                place[following] = len(states)
                states.append(following)
            row.append(-1 if following is None else place[following])
        rows.append(row)
        if len(states) > _MOST_STATES:
            raise TooManyStates(f"{rule}: its automaton has more than {_MOST_STATES:,} states")
    ends = np.array([accepts(state) for state in states], dtype=bool)
    return _minimal(np.array(rows)[:, symbols], ends)


# What a name stands for.


@lru_cache(maxsize=16)
def _kinds(labels: tuple) -> dict:
    """The tag of each label of each kind of chunks; no kinds if a label has no such form."""
    kinds = {}
    for k, label in enumerate(labels):
        if isinstance(label, str) and re.fullmatch(r"[BIESLU]-.+", label, re.DOTALL):
            tag, kind = tag_and_kind(label, None)
            kinds.setdefault(kind, {})[k] = tag
        elif label != "O":
            return {}
    return kinds


def _tags(name, labels: tuple, rule) -> dict:
    """The labels that a name stands for, and their tags; those of no kind count by runs, as I."""
    kinds = _kinds(labels)
    if name in labels:
        if name in kinds:
            raise ValueError(f"rules: {rule}: {name!r} is a label and a kind of chunks")
        k = labels.index(name)
        return {k: next((own[k] for own in kinds.values() if k in own), "I")}
    if name not in kinds:
        known = f"the classes are {[*labels]}" + (f", the kinds {[*kinds]}" if kinds else "")
        if isinstance(rule, Pattern) and re.search(r"[^\w-]", name):
            known += "; in a pattern put spaces between names and signs, as in 'a . b*'"
        raise ValueError(f"rules: {rule}: unknown label {name!r}; {known}")
    return kinds[name]


def _marked(labels: tuple, *groups) -> np.ndarray:
    """A symbol for each label: 1 in the first group, 2 in the second, 0 in none."""
    symbols = np.zeros(len(labels), dtype=np.int64)
    for symbol, group in enumerate(groups, 1):
        symbols[list(group)] = symbol
    return symbols


# The rules.


class Rule(ABC):
    """What a labelling must satisfy as a whole."""

    def _parts(self, labels: tuple) -> list:
        """The rules of single names that this one consists of."""
        return [self]

    @abstractmethod
    def _automaton(self, labels: tuple) -> RuleAutomaton:
        """The automaton that accepts the labellings that obey."""


def _counted(name, least, most, labels, rule) -> RuleAutomaton:
    """The automaton of a number of chunks between `least` and `most` (None: any)."""
    tags = _tags(name, labels, rule)
    forms = [OUTSIDE, *((tag, "chunk") for tag in sorted(set(tags.values())))]
    symbols = np.array(
        [forms.index((tags[k], "chunk")) if k in tags else 0 for k in range(len(labels))]
    )
    top = least if most is None else most

    def step(state, symbol):
        count, before = state
        count += chunk_step(forms[before], forms[symbol], None)[0]
        if count > top:
            return None if most is not None else (top, symbol)
        return count, symbol

    return _explored((0, 0), step, lambda state: state[0] >= least, symbols, rule)


@dataclass(frozen=True)
class AtMostOnce(Rule):
    """At most one chunk of a kind, or one run of a label.

    Read more in the :ref:`User Guide <rules>`.

    Parameters
    ----------
    label : str or label, default=None
        A kind of chunks, ``"ZIP"`` for labels ``"B-ZIP"`` and ``"I-ZIP"`` of any tagging scheme, or
        a label: neighbouring nodes with it are one run, but each ``"B-ZIP"`` counts, as each begins
        a chunk (S-, U-, E- and L- likewise). None applies the rule to each kind, or to
        each label except "O" if labels are not chunk tags.

    See Also
    --------
    skstruct.Exactly : A number of chunks.
    skstruct.Chain : Training under rules.
    skstruct.SAGCRF.predict : Prediction under rules.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF, AtMostOnce
    >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["a", "b"], ["b", "a"]]
    >>> crf = SAGCRF(random_state=0).fit(X, y)
    >>> x = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> crf.predict([x])[0].tolist()
    ['a', 'b', 'a']
    >>> crf.predict([x], rules=[AtMostOnce("a")])[0].tolist()
    ['a', 'b', 'b']
    """

    label: Any = None

    def _parts(self, labels: tuple) -> list:
        """One rule for each kind or label."""
        if self.label is not None:
            return [self]
        names = _kinds(labels) or [name for name in labels if name != "O"]
        return [AtMostOnce(name) for name in names]

    def _automaton(self, labels: tuple) -> RuleAutomaton:
        """None seen yet, in the first, after it."""
        return _counted(self.label, 0, 1, labels, self)


@dataclass(frozen=True)
class AtLeastOnce(Rule):
    """At least one chunk of a kind, or node of a label.

    Read more in the :ref:`User Guide <rules>`.

    Parameters
    ----------
    label : str or label
        A kind of chunks or a label, as in :class:`AtMostOnce`.

    See Also
    --------
    skstruct.AtMostOnce : The opposite bound.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF, AtLeastOnce
    >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["a", "b"], ["b", "a"]]
    >>> crf = SAGCRF(random_state=0).fit(X, y)
    >>> x = np.array([[2.0, 0.0], [1.0, 0.0]])
    >>> crf.predict([x], rules=[AtLeastOnce("b")])[0].tolist()
    ['a', 'b']
    """

    label: Any

    def _automaton(self, labels: tuple) -> RuleAutomaton:
        """Two states: not yet, and seen."""
        return _counted(self.label, 1, None, labels, self)


@dataclass(frozen=True)
class Exactly(Rule):
    """A number of chunks of a kind, or of runs of a label.

    Read more in the :ref:`User Guide <rules>`.

    Parameters
    ----------
    n : int
        The number; 0 forbids the label.
    label : str or label
        A kind of chunks or a label, as in :class:`AtMostOnce`.

    Raises
    ------
    ValueError
        If `n` is not an integer of at least 0.

    See Also
    --------
    skstruct.AtMostOnce : An upper bound.
    skstruct.AtLeastOnce : A lower bound.

    Examples
    --------
    >>> from skstruct import Exactly
    >>> Exactly(1, "TITLE")
    Exactly(n=1, label='TITLE')
    """

    n: int
    label: Any

    def __post_init__(self) -> None:
        if not isinstance(self.n, Integral) or isinstance(self.n, bool) or self.n < 0:
            raise ValueError(f"Exactly: n must be an integer of at least 0, got {self.n!r}")

    def _automaton(self, labels: tuple) -> RuleAutomaton:
        """A state for each number seen."""
        return _counted(self.label, self.n, self.n, labels, self)


@dataclass(frozen=True)
class Before(Rule):
    """No node of one kind or label after one of another.

    A labelling without one of the two satisfies it. Read more in the :ref:`User Guide <rules>`.

    Parameters
    ----------
    first, second : str or label
        Kinds of chunks or labels, as in :class:`AtMostOnce`: all nodes of `first` must come before
        all of `second`.

    See Also
    --------
    skstruct.Pattern : Any order.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF, Before
    >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["a", "b"], ["b", "a"]]
    >>> crf = SAGCRF(random_state=0).fit(X, y)
    >>> crf.predict([np.eye(2)[[1, 0, 0]]], rules=[Before("a", "b")])[0].tolist()
    ['a', 'a', 'a']
    """

    first: Any
    second: Any

    def _automaton(self, labels: tuple) -> RuleAutomaton:
        """Whether `second` has been seen."""
        groups = [_tags(name, labels, self) for name in (self.first, self.second)]
        if groups[0].keys() & groups[1].keys():
            raise ValueError(f"rules: {self}: the two names have a label in common")
        symbols = _marked(labels, *groups)

        def step(seen, symbol):
            return None if seen and symbol == 1 else seen or symbol == 2

        return _explored(False, step, lambda seen: True, symbols, self)


@dataclass(frozen=True)
class Pattern(Rule):
    """A regular expression that the whole sequence of labels must match.

    Read more in the :ref:`User Guide <rules>`.

    Parameters
    ----------
    pattern : str
        Names separated by spaces, with ``|`` between alternatives, ``*``, ``+`` and ``?`` after
        repeated or optional parts, parentheses around groups, and ``.`` for any label. A name is a
        label, or a kind of chunks for any label of that kind. Quote names with spaces or such
        signs. Labels that are not strings are written as by ``str``.

    Raises
    ------
    ValueError
        If the pattern is not well-formed.

    Warns
    -----
    UserWarning
        If a sign that is not quoted is also the name of a class, but for a repeated ``.``.

    See Also
    --------
    skstruct.Before : Order alone.
    skstruct.Chain : Forbids single steps.

    Notes
    -----
    The automaton is made of positions in the pattern (Glushkov 1961), then of sets of them.

    Examples
    --------
    >>> import numpy as np
    >>> from skstruct import SAGCRF, Pattern
    >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["a", "b"], ["b", "a"]]
    >>> crf = SAGCRF(random_state=0).fit(X, y)
    >>> x = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> crf.predict([x], rules=[Pattern("a+ b+ | b .*")])[0].tolist()
    ['a', 'b', 'b']
    """

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise TypeError(f"Pattern: pattern must be a str, got {self.pattern!r}")
        self._read()

    def _parts(self, labels: tuple) -> list:
        """Itself; warns of signs that are names of classes, too."""
        tokens = [sign if sign != (None,) else "." for sign in _tokens(self.pattern)]
        for sign, following in pairwise([*tokens, ""]):
            is_any = sign == "." and following in ("*", "+", "?")
            if isinstance(sign, str) and sign in labels and not is_any:
                means = "any label" if sign == "." else "a sign of patterns"
                warn_user(
                    f"rules: {self}: {sign!r} is {means}, and the name of a class: quote it "
                    f"({sign!r} in quotation marks within the pattern) to mean the class"
                )
        return [self]

    def _read(self):
        """The names at all positions, the positions after each, and what the whole is made of."""
        tokens, names, follow = deque(_tokens(self.pattern)), [], []
        if len(tokens) > _MOST_TOKENS:
            raise ValueError(f"{self}: more than {_MOST_TOKENS:,} names and signs")
        try:
            whole = _alternatives(tokens, names, follow, self)
        except RecursionError:
            raise ValueError(f"{self}: parentheses are nested too deeply") from None
        if tokens or not names:
            found = f"{tokens[0]!r} without a beginning" if tokens else "no labels"
            raise ValueError(f"{self}: {found}")
        return names, follow, whole

    def _automaton(self, labels: tuple) -> RuleAutomaton:
        """Sets of positions in the pattern."""
        names, follow, (may_be_empty, first, last) = self._read()
        fits = np.ones((len(names), len(labels)), dtype=bool)
        labels = tuple(map(str, labels))
        for p, name in enumerate(names):
            if name is not None:
                fits[p] = _marked(labels, _tags(name, labels, self)) == 1
        columns, symbols = np.unique(fits, axis=1, return_inverse=True)
        # Sets are bits of integers.
        fitting, follow = [_bits(np.flatnonzero(c)) for c in columns.T], [*map(_bits, follow)]
        first, last = _bits(first), _bits(last)

        @lru_cache(maxsize=1)
        def reach(state):
            if state is None:
                return first
            digits = bin(state)[:1:-1]
            return reduce(or_, (follow[p] for p, digit in enumerate(digits) if digit == "1"))

        def step(state, symbol):
            return reach(state) & fitting[symbol] or None

        def accepts(state):
            return may_be_empty if state is None else last & state > 0

        return _explored(None, step, accepts, symbols.ravel(), self)


def _bits(positions):
    """A set of positions as an integer."""
    return sum(1 << int(p) for p in positions)


_TOKEN = re.compile(r"""\s*(?:(?P<sign>[()|*+?])|(["'])(?P<quoted>.*?)\2|(?P<name>[^\s()|*+?]+))""")


def _tokens(pattern):
    """Signs as strings, names in tuples, None in one for any label."""
    for match in _TOKEN.finditer(pattern.rstrip()):
        if match["sign"]:
            yield match["sign"]
        elif match["name"] == ".":
            yield (None,)
        else:
            yield (match["name"] if match["quoted"] is None else match["quoted"],)


# An expression: whether it may be empty, the positions that it may begin with and end with.


def _alternatives(tokens, names, follow, rule):
    """Sequences between bars."""
    empty, first, last = _sequence(tokens, names, follow, rule)
    while tokens and tokens[0] == "|":
        tokens.popleft()
        other = _sequence(tokens, names, follow, rule)
        empty, first, last = empty or other[0], first | other[1], last | other[2]
    return empty, first, last


def _sequence(tokens, names, follow, rule):
    """Items one after another."""
    empty, first, last = True, frozenset(), frozenset()
    while tokens and tokens[0] not in ("|", ")"):
        may_be_empty, begin, end = _item(tokens, names, follow, rule)
        for p in last:
            follow[p] |= begin
        first = first | begin if empty else first
        last = last | end if may_be_empty else end
        empty = empty and may_be_empty
    return empty, first, last


def _item(tokens, names, follow, rule):
    """A name or a group, and how often."""
    token = tokens.popleft()
    if token == "(":
        item = _alternatives(tokens, names, follow, rule)
        if not tokens:
            raise ValueError(f"{rule}: a parenthesis is not closed")
        tokens.popleft()
    elif isinstance(token, str):
        raise ValueError(f"{rule}: {token!r} has nothing before it to repeat")
    else:
        item = False, *(frozenset([len(names)]),) * 2
        names += token
        follow.append(set())
    while tokens and tokens[0] in ("*", "+", "?"):
        sign = tokens.popleft()
        for p in item[2] if sign != "?" else ():
            follow[p] |= item[1]
        item = item if sign == "+" else (True, *item[1:])
    return item


#: The rules by name.
RULES = {rule.__name__: rule for rule in (AtLeastOnce, AtMostOnce, Before, Exactly, Pattern)}


# Several rules together.


def read_rules(rules: Any) -> tuple:
    """The rules of a `rules` argument."""
    if rules is None:
        return ()
    if not isinstance(rules, (list, tuple)) or not all(isinstance(rule, Rule) for rule in rules):
        raise TypeError(f"rules must be a list of rules such as [AtMostOnce('a')], got {rules!r}")
    for rule in rules:
        if not all(isinstance(name, Hashable) for name in vars(rule).values()):
            raise TypeError(f"rules: {rule}: a label must be a str, a number or a bool")
    return tuple(rules)


def single_rules(rules: Any, classes: np.ndarray) -> tuple:
    """The rules of a `rules` argument, those of several names as one for each; no rule twice."""
    labels = tuple(classes.tolist())
    return tuple(dict.fromkeys(part for rule in read_rules(rules) for part in rule._parts(labels)))


def automaton_of(rule: Rule, labels: tuple) -> RuleAutomaton:
    """The automaton of a single rule: found again by every call of predict."""
    return _automaton_of(rule, labels, type(labels[0]))


@lru_cache(maxsize=512)
def _automaton_of(rule, labels, kind):
    """The same; True and 1 are equal, but patterns write them differently."""
    return rule._automaton(labels)


class RuleProduct(NamedTuple):
    """All rules as pairs of a state and the label that led to it: the labels of a wider chain."""

    # (n_pairs,) of int32: The label of each pair; pairs are in the order of labels.
    labels: np.ndarray
    # (n_labels,) of int32: The pair of each label at the first node, or -1.
    first: np.ndarray
    # (n_pairs, n_labels) of int32: The pair after a pair and a label, or -1.
    after: np.ndarray
    # (n_pairs,) of uint8: 1 where a labelling may end.
    ends: np.ndarray


def _intersection(one, other):
    """The automaton of what both accept."""
    after = np.where(
        (one.after[:, None] >= 0) & (other.after[None] >= 0),
        one.after[:, None] * np.int64(len(other.after)) + other.after[None],
        -1,
    )
    accepts = one.accepts[:, None] & other.accepts
    return _minimal(after.reshape(-1, after.shape[2]), accepts.ravel())


def product_of(rules: Iterable[Rule], classes: np.ndarray, most: int | None = None) -> RuleProduct:
    """The product of single rules, of at most so many pairs."""
    labels = tuple(classes.tolist())
    return _product(tuple(rules), labels, type(labels[0]), most or _MOST_PAIRS)


def _too_many(rules, labels, n_states, most):
    """The error about a product that is too large."""
    names = ", ".join(map(str, rules))
    return TooManyStates(
        f"rules: the product of {names} has {n_states:,} states on {len(labels)} labels, more "
        f"than {most:,}; predict takes up only those that a labelling breaks"
    )


@lru_cache(maxsize=64)
def _product(rules, labels, kind, most):
    n_labels = len(labels)
    whole = RuleAutomaton(np.zeros((1, n_labels), dtype=np.int32), np.ones(1, dtype=bool))
    for rule in rules:
        one = automaton_of(rule, labels)
        if len(whole.after) * len(one.after) > 8 * most:  # before it is made minimal
            raise _too_many(rules, labels, len(whole.after) * len(one.after), most)
        whole = _intersection(whole, one)
    n_states = len(whole.after)
    q, k = np.nonzero(whole.after >= 0)
    pairs = np.unique(k * n_states + whole.after[q, k])
    n_pairs = pairs.size
    if n_pairs > most:
        raise _too_many(rules, labels, n_pairs, most)
    if n_pairs == 0:  # nothing obeys
        pairs = np.zeros(1, dtype=np.int64)
    of_labels, states = np.divmod(pairs, n_states)
    place = np.full(n_labels * n_states + 1, -1, dtype=np.int32)
    place[pairs] = np.arange(pairs.size)
    keys = np.where(whole.after >= 0, np.arange(n_labels) * n_states + whole.after, -1)
    return RuleProduct(
        labels=of_labels.astype(np.int32),
        first=place[keys[0]],
        after=np.ascontiguousarray(place[keys[states]]),
        ends=(whole.accepts[states] if n_pairs else np.zeros(1)).astype(np.uint8),
    )


# Which rules labellings break, and which rules clash.


@kernel
def _run(after, accepts, codes, offsets, broken):
    """Mark the automata that do not accept each labelling."""
    for i in range(offsets.shape[0] - 1):
        for r in range(after.shape[0]):
            state = 0
            for t in range(offsets[i], offsets[i + 1]):
                state = after[r, state, codes[t]]
                if state < 0:
                    break
            broken[i, r] = 1 if state < 0 or accepts[r, state] == 0 else 0


def broken_rules(rules, classes, codes, offsets) -> np.ndarray:
    """Whether each labelling breaks each rule, (n_samples, n_rules); False without nodes."""
    labels = tuple(classes.tolist())
    automata = [automaton_of(rule, labels) for rule in rules]
    longest = max((len(one.after) for one in automata), default=1)
    after = np.full((len(automata), longest, len(labels)), -1, dtype=np.int32)
    accepts = np.zeros(after.shape[:2], dtype=np.uint8)
    for r, one in enumerate(automata):
        after[r, : len(one.after)], accepts[r, : len(one.accepts)] = one
    broken = np.empty((offsets.size - 1, len(automata)), dtype=np.uint8)
    _run(after, accepts, np.ascontiguousarray(codes, dtype=np.int32), offsets, broken)
    return (broken > 0) & (np.diff(offsets) > 0)[:, None]


def check_rules(rules, classes, codes, offsets) -> None:
    """Reject training labels that break a rule."""
    found = np.argwhere(broken_rules(rules, classes, codes, offsets))
    if found.size:
        raise ValueError(
            f"y: the labels of sample {found[0, 0]} break the rule {rules[found[0, 1]]}"
        )


def _is_feasible(rules, classes, steps, allowed):
    """Whether a labelling of nodes with the allowed labels takes allowed steps and obeys."""
    product = product_of(rules, classes)
    alive = np.zeros(product.labels.size, dtype=bool)
    alive[product.first[(product.first >= 0) & allowed[0]]] = True
    for row in allowed[1:]:
        after = np.where(steps[product.labels] & row, product.after, -1)[alive]
        alive = np.zeros_like(alive)
        alive[after[after >= 0]] = True
    return bool((alive & (product.ends > 0)).any())


def clashing_rules(rules, classes, steps, allowed) -> list:
    """A minimal set of rules that no labelling obeys, under masks of steps and labels; or []."""
    rules = list(rules)
    for rule in tuple(rules):
        rest = [other for other in rules if other is not rule]
        try:
            if not _is_feasible(rest, classes, steps, allowed):
                rules = rest
        except TooManyStates:  # whether they clash is not known: the rule stays
            pass
    return rules
