"""A small annotated corpus that the project generates itself: no text of others is in it."""

from __future__ import annotations

from sklearn.utils import Bunch, check_random_state

from ..data.ragged import RaggedArray
from ..typing import RandomStateLike

_COLUMNS = ("word", "pos", "chunk", "entity")

# Names that stand for people, places and organisations alike are what makes the task hard.
_SHARED = "Lincoln Jordan Chelsea Florence Austin Sydney Orlando Madison Houston Paris".split()
_FIRST = "Ada Ben Clara David Eva Felix Greta Hugo Iris Jonas Karla Leo Mona Nils Olga".split()
_LAST = "Berg Costa Dubois Evans Fischer Garcia Hansen Ito Keller Larsen Moreau Novak".split()
_PLACES = "Berlin Oslo Lima Cairo Quito Delhi Porto Turin Bergen Leeds Ghent Basel".split()
_FIRMS = "Acme Borealis Cobalt Dynamo Ember Fulcrum Granite Helix Ionix Juniper Kestrel".split()
_KINDS = "Bank Group Motors Press Systems Airlines".split()
_NOUNS = "report plan deal visit order offer claim study vote result".split()
_ADJECTIVES = "new large final early local private public late".split()
_PAST = "signed opened rejected praised read cancelled described approved".split()
# The same words as the nouns: only their surroundings tell.
_BASE = "report plan order offer claim study visit".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday".split()


class _Writer:
    """Writes random sentences; `unseen` is the share of invented names."""

    def __init__(self, rng, unseen):
        self.rng, self.unseen = rng, unseen

    def pick(self, words):
        return words[self.rng.randint(len(words))]

    def name(self, words):
        """A known name, or an invented one with a tail that the known ones do not have."""
        if self.rng.uniform() >= self.unseen:
            return self.pick(words)
        return self.pick(words)[:3] + self.pick(["ela", "ovic", "ford", "stad", "ura", "mont"])

    def person(self):
        if self.rng.uniform() < 0.3:
            return [(self.pick(["Mr.", "Ms.", "Dr."]), "NNP", ""), (self.name(_LAST), "NNP", "PER")]
        if self.rng.uniform() < 0.3:
            return [(self.pick(_SHARED), "NNP", "PER")]
        return [(self.name(_FIRST), "NNP", "PER"), (self.name(_LAST), "NNP", "PER")]

    def organisation(self):
        if self.rng.uniform() < 0.25:
            return [(self.pick(_SHARED), "NNP", "ORG"), (self.pick(_KINDS), "NNP", "ORG")]
        tail = [(self.pick(_KINDS), "NNP", "ORG")] if self.rng.uniform() < 0.6 else []
        return [(self.name(_FIRMS), "NNP", "ORG"), *tail]

    def place(self):
        words = _SHARED if self.rng.uniform() < 0.35 else _PLACES
        return [(self.name(words), "NNP", "LOC")]

    def thing(self):
        adjective = [(self.pick(_ADJECTIVES), "JJ", "")] if self.rng.uniform() < 0.5 else []
        article = self.pick(["the", "a", "this"])
        return [(article, "DT", ""), *adjective, (self.pick(_NOUNS), "NN", "")]

    def sentence(self):
        """Phrases (chunk type, tokens of word, part of speech, entity type)."""
        subject = self.pick([self.person, self.organisation, self.thing, self.person])()
        phrases = [("NP", subject)]
        if self.rng.uniform() < 0.6:
            phrases.append(("VP", [(self.pick(_PAST), "VBD", "")]))
        else:
            modal = self.pick(["will", "may", "should"])
            phrases.append(("VP", [(modal, "MD", ""), (self.pick(_BASE), "VB", "")]))
        phrases.append(("NP", self.pick([self.thing, self.organisation, self.person])()))
        if self.rng.uniform() < 0.6:
            phrases.append(("PP", [(self.pick(["in", "near", "from"]), "IN", "")]))
            phrases.append(("NP", self.place()))
        if self.rng.uniform() < 0.4:
            phrases.append(("PP", [("on", "IN", "")]))
            phrases.append(("NP", [(self.pick(_DAYS), "NNP", "")]))
        return [*phrases, ("", [(".", ".", "")])]


def _rows(phrases):
    """Tokens with IOB2 tags of chunks and entities."""
    rows = []
    for kind, tokens in phrases:
        before = ""
        for t, (word, pos, entity) in enumerate(tokens):
            chunk = f"{'I' if t else 'B'}-{kind}" if kind else "O"
            tag = f"{'I' if entity == before else 'B'}-{entity}" if entity else "O"
            rows.append((word if rows else word[0].upper() + word[1:], pos, chunk, tag))
            before = entity
    return rows


def _write(rng, n_sentences, unseen):
    writer = _Writer(rng, unseen)
    sentences = [_rows(writer.sentence()) for _ in range(n_sentences)]
    columns = [[list(column) for column in zip(*rows, strict=True)] for rows in sentences]
    return Bunch(
        **{
            name: RaggedArray.from_list([parts[q] for parts in columns])
            for q, name in enumerate(_COLUMNS)
        }
    )


def make_annotated_sentences(
    n_train: int = 300, n_test: int = 200, *, random_state: RandomStateLike = 0
) -> Bunch:
    """English-like sentences from a small grammar, with tags: for examples without a download.

    The text is generated, so figures on it say nothing about real language. Three things make it
    more than a look-up: names that stand for people, places and organisations alike, words that are
    nouns or verbs by their place, and invented names, more of them in the test part.

    Parameters
    ----------
    n_train, n_test : int
        Numbers of sentences.
    random_state : int, RandomState instance or None, default=0
        Draws the sentences.

    Returns
    -------
    Bunch
        ``train`` and ``test``, each with RaggedArrays of strings ``word``, ``pos``, ``chunk`` (NP,
        VP, PP) and ``entity`` (PER, LOC, ORG), the last two in IOB2; ``DESCR``.

    Raises
    ------
    ValueError
        If a number of sentences is below 1.

    See Also
    --------
    skstruct.datasets.load_conll : Reads a file of columns.
    skstruct.datasets.fetch_conll2000 : Downloads sentences with chunks.

    Examples
    --------
    >>> from skstruct.datasets import make_annotated_sentences
    >>> data = make_annotated_sentences(2, 1)
    >>> len(data.train.word), data.train.word[0].size == data.train.entity[0].size
    (2, True)
    """
    if n_train < 1 or n_test < 1:
        raise ValueError("n_train and n_test must be at least 1")
    rng = check_random_state(random_state)
    return Bunch(
        train=_write(rng, n_train, 0.2),
        test=_write(rng, n_test, 0.4),
        DESCR=make_annotated_sentences.__doc__,
    )
