"""TemplateVectorizer: CRF++ and Wapiti templates over token columns, vectorised."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..core.offsets import ends_of
from ..data.names import with_names
from ..data.ragged import RaggedArray, object_array
from ..typing import PathLike, SamplesLike
from .columns import read_columns
from .patterns import from_tuples, parse
from .ragged_transformer import RaggedTransformer
from .template_codes import Coder, by_text, order_codes
from .template_counts import TemplateCounts
from .template_names import TemplateNames


class _Features(NamedTuple):
    """What was learned for templates of one text (templates without identifiers share it)."""

    texts: tuple  # what stands around the macros
    tables: list  # per combination step that was compacted, the sorted keys; else None
    keys: np.ndarray  # sorted keys of the known features
    first: int  # column of the first


def _has_edge_features(vectorizer):
    return bool(getattr(vectorizer, "_edge", None))


class TemplateVectorizer(RaggedTransformer, BaseEstimator):
    r"""Expand feature templates over the columns of tokens, as CRF++ and Wapiti do.

    The strings of each column are coded by integers once; a template then combines arrays of codes,
    with no Python for each token and template.

    Parameters
    ----------
    templates : str, Path or list
        The text of a template file; a Path to one; or a list of pairs (offset, column), of tuples
        of pairs for combinations, and of strings in the file syntax. ``%x``, ``%t``, ``%m`` are
        known, upper case for lower-cased results. Lines ``B`` are accepted: a chain always has
        transitions. A ``B`` line with macros makes them depend on the tokens: the output is then
        one pair (features, edge features) a sequence, for ``Chain(edge_features=True)``. A ``U``
        line without macros is a feature of every token.
    outside : {"mark", "wapiti", "drop"}, default="mark"
        What a macro gives beyond an end of the sequence. "mark": a mark, ``_B-1``, ``_B+2`` and so
        on, as in CRF++, which regular expressions do not see. "wapiti": Wapiti's marks, ``_x-1`` to
        ``_x-4`` and ``_x-#`` beyond, which ``%t`` and ``%m`` match like any token. "drop": the
        whole feature is dropped there, as in CRFsuite's tutorials.
    min_count : int, default=1
        Drop features that occur in fewer training tokens.
    sequence_id : str, default=None
        If X is a pandas or polars data frame: its column of sequence ids. The other columns are the
        token's, in order.
    columns : list of str, default=None
        If X is a data frame: its columns to use, in the order in which templates count them;
        default all but `sequence_id`.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Codes of strings.
    n_features_out_ : int
        Number of columns of the node features.
    n_columns_ : int
        Number of columns of a token.

    See Also
    --------
    skstruct.preprocessing.SequenceVectorizer : Features from dicts and lists of attributes.
    skstruct.preprocessing.make_sequence_union : A union with names made from the types.
    skstruct.datasets.load_conll : Reads a file of columns.

    Notes
    -----
    Template files are read as CRF++ and Wapiti read them: ``%x[+1,0]`` is ``%x[1,0]``, Wapiti's
    ``%x[@1,0]`` and ``%x[@-1,0]`` are the first and the last token, a ``#`` at the beginning of a
    line or after a space begins a comment. Regular expressions know ``. * ? ^ $`` and Wapiti's
    classes; a dot is a character, not a byte, and upper-case macros lower all of Unicode.

    Examples
    --------
    >>> from skstruct.preprocessing import TemplateVectorizer
    >>> X = [[("He", "PRP"), ("runs", "VBZ")]]
    >>> vectorizer = TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nB").fit(X)
    >>> sorted(vectorizer.get_feature_names_out().tolist())
    ['U0:He', 'U0:runs', 'U1:PRP/VBZ', 'U1:_B-1/PRP']
    """

    def __init__(
        self,
        templates: str | Path | list,
        *,
        outside: str = "mark",
        min_count: int = 1,
        sequence_id: str | None = None,
        columns: Any = None,
    ) -> None:
        self.templates = templates
        self.outside = outside
        self.min_count = min_count
        self.sequence_id = sequence_id
        self.columns = columns

    @staticmethod
    def read_templates(path: PathLike) -> str:
        """The text of a template file.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        str
            Its text, for `templates`.

        See Also
        --------
        skstruct.preprocessing.TemplateVectorizer.write_templates : The inverse.

        Examples
        --------
        >>> import tempfile
        >>> from skstruct.preprocessing import TemplateVectorizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TemplateVectorizer("U:%x[0,0]").write_templates(f"{folder}/template")
        ...     text = TemplateVectorizer.read_templates(f"{folder}/template")
        >>> text.splitlines()
        ['U:%x[0,0]']
        """
        return Path(path).read_text(encoding="utf-8-sig")

    def write_templates(self, path: PathLike) -> None:
        """Write the templates as a file that CRF++ and Wapiti read.

        Parameters
        ----------
        path : str or Path
            Where.

        See Also
        --------
        skstruct.preprocessing.TemplateVectorizer.read_templates : The inverse.

        Examples
        --------
        Templates that were given as pairs get the syntax of the file:

        >>> import tempfile
        >>> from pathlib import Path
        >>> from skstruct.preprocessing import TemplateVectorizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     vectorizer = TemplateVectorizer([(0, 0), ((-1, 0), (0, 0))])
        ...     vectorizer.write_templates(f"{folder}/template")
        ...     text = Path(folder, "template").read_text(encoding="utf-8")
        >>> text.splitlines()
        ['U0:%x[0,0]', 'U1:%x[-1,0]/%x[0,0]']
        """
        lines = [template.line for template in self._parse()]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _parse(self):
        if isinstance(self.templates, Path):
            return parse(self.read_templates(self.templates))
        if isinstance(self.templates, str):
            if _is_file_name(self.templates):
                raise ValueError(
                    f"templates is the text of templates, got {self.templates!r}; to read a file "
                    f"pass Path({self.templates!r})"
                )
            return parse(self.templates)
        if isinstance(self.templates, Iterable) and not isinstance(self.templates, bytes):
            return from_tuples(self.templates)
        raise TypeError(f"templates must be a str, a Path or a list, got {self.templates!r}")

    @property
    def n_columns_(self) -> int:
        """Number of columns of a token."""
        check_is_fitted(self)
        return len(self._tokens.values)

    def fit_transform(self, X: SamplesLike, y: Any = None) -> RaggedArray | np.ndarray:
        r"""Learn the features and transform.

        Parameters
        ----------
        X : list of sequences of str or of tuples of str, RaggedArray of str, or data frame
            The columns of every token; a str is one column.
        y : object, default=None
            Ignored.

        Returns
        -------
        RaggedArray or ndarray of object
            As :meth:`transform`.

        Raises
        ------
        ValueError, TypeError
            If a template is malformed, names a column that is not there, or tokens have different
            numbers of columns; names the line, or the sequence and the token.

        See Also
        --------
        skstruct.preprocessing.TemplateVectorizer.transform : On other sequences.

        Examples
        --------
        >>> from skstruct.preprocessing import TemplateVectorizer
        >>> X = [[("He", "PRP"), ("runs", "VBZ")]]
        >>> TemplateVectorizer("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]").fit_transform(X)[0].toarray()
        array([[1., 0., 0., 1.],
               [0., 1., 1., 0.]])
        """
        templates, tokens = self._read_training(X)
        vocabulary = {}
        source = Coder(tokens, vocabulary, True, self.outside)
        node_features, node = self._learn(source, templates[0])
        edge_features, edge = None, None
        if templates[1]:
            edge_features, edge = self._learn(source, templates[1])
        self._take(vocabulary, templates, (node_features, edge_features), tokens)
        return self._wrap(node, edge, tokens.offsets)

    def _read_training(self, X):
        """Templates of nodes and of edges, and the tokens, after a look at all parameters."""
        if self.outside not in ("mark", "wapiti", "drop"):
            raise ValueError(f"outside must be 'mark', 'wapiti' or 'drop', got {self.outside!r}")
        if not isinstance(self.min_count, Integral) or self.min_count < 1:
            raise ValueError(f"min_count must be an integer of at least 1, got {self.min_count!r}")
        templates = self._parse()
        tokens = read_columns(X, self.sequence_id, self.columns)
        _check_columns(templates, tokens)
        node_templates = [t for t in templates if "U" in t.kinds]
        edge_templates = [t for t in templates if "B" in t.kinds and t.macros]
        return (node_templates, edge_templates), tokens

    def _take(self, vocabulary, templates, features, tokens):
        """Set what has been learned."""
        self.vocabulary_, self.n_features_out_ = vocabulary, features[0][2]
        self._node, self._edge = templates
        self._node_features, self._edge_features = features
        self._names = TemplateNames(vocabulary, features[0]), None
        if features[1] is not None:
            self._names = self._names[0], TemplateNames(vocabulary, features[1], "B")
        self._tokens = tokens._replace(
            values=[[] for _ in tokens.values], offsets=np.zeros(1, dtype=np.int64)
        )

    def _count_part(self, X):
        """What a part of the training sequences has: see :func:`fit_vectorizer`."""
        return TemplateCounts.of(*self._read_training(X), self.outside)

    def _fit_counts(self, counts):
        """Learn from the counts of all parts."""
        vocabulary, features = {}, [None, None]
        for kind, templates in enumerate(counts.templates):
            if kind == 1 and not templates:
                continue
            base = order_codes(templates, counts.results, counts.steps, vocabulary, self.outside)
            learned, first = [], 0
            for texts, members in by_text(templates).items():
                tables = [None] * len(members[0].macros)
                keys, number = counts.keys(kind, texts, vocabulary, base, tables)
                learned.append(self._known(members, tables, keys, number, first))
                first += learned[-1].keys.size
            features[kind] = (learned, base, first)
        self._take(vocabulary, counts.templates, tuple(features), counts.tokens)

    def _learn(self, source, templates):
        """Features of templates, by their text, and the matrix of the training tokens."""
        learned, first = [], 0
        coded = []
        base = source.base(templates)
        for members in by_text(templates).values():
            tables = [None] * len(members[0].macros)
            keys = [source.keys(template, base, tables, True) for template in members]
            known, counts = np.unique(np.concatenate(keys), return_counts=True)
            learned.append(self._known(members, tables, known, counts, first))
            first += learned[-1].keys.size
            coded.extend((learned[-1], key) for key in keys)
        return (learned, base, first), _matrix(coded, source.n_tokens, first)

    def _known(self, members, tables, keys, counts, first):
        """The features of templates of one text that occur often enough."""
        if len(members) > 1 and any(table is not None for table in tables):
            raise ValueError(
                f"template {members[0].line!r}: too many combinations to share one name; give the "
                "templates identifiers (U01:, U02:)"
            )
        keep = (keys >= 0) & (counts >= self.min_count)
        return _Features(members[0].texts, tables, keys[keep], first)

    def transform(self, X: SamplesLike) -> RaggedArray | np.ndarray:
        r"""Expand the templates on new sequences; features not seen in fit are ignored.

        Sequences without tokens, and X without sequences, stay so.

        Parameters
        ----------
        X : list of sequences of str or of tuples of str, RaggedArray of str, or data frame
            The columns of every token; a str is one column.

        Returns
        -------
        RaggedArray or ndarray of object
            CSR features of all tokens; with ``B`` templates that have macros one pair (features,
            edge features) a sequence, the first edge feature being constant.

        See Also
        --------
        skstruct.Chain : Takes the sequences; with ``edge_features=True`` the pairs.

        Examples
        --------
        >>> from skstruct.preprocessing import TemplateVectorizer
        >>> X = [[("He", "PRP"), ("runs", "VBZ")]]
        >>> vectorizer = TemplateVectorizer("U:%x[0,0]\nB:%x[0,1]").fit(X)
        >>> features, edge_features = vectorizer.transform([[("She", "PRP"), ("runs", "VBZ")]])[0]
        >>> features.toarray()  # no feature of "She"
        array([[0., 0.],
               [0., 1.]])
        >>> edge_features.shape
        (1, 3)
        """
        check_is_fitted(self)
        tokens = read_columns(X, self.sequence_id, self.columns, self._tokens)
        source = Coder(tokens, self.vocabulary_, False, self.outside)
        node = self._apply(source, self._node, self._node_features)
        edge = self._apply(source, self._edge, self._edge_features) if self._edge else None
        return self._wrap(node, edge, tokens.offsets)

    def _apply(self, source, templates, features):
        learned, base, n_features = features
        by_text = {own.texts: own for own in learned}
        coded = []
        for template in templates:
            own = by_text[template.texts]
            coded.append((own, source.keys(template, base, own.tables, False)))
        return _matrix(coded, source.n_tokens, n_features)

    def _wrap(self, node, edge, offsets):
        names = getattr(self, "_names", (None, None))  # an older pickle has none to give
        if edge is None:
            return RaggedArray(node, offsets, names[0])
        constant = sparse.csr_matrix(np.ones((edge.shape[0], 1)))
        edge = sparse.hstack([constant, edge], format="csr")
        # The features of the edge between t - 1 and t are those of its second token.
        pairs = [(node[start:stop], edge[start + 1 : stop]) for start, stop in pairwise(offsets)]
        return with_names(object_array(pairs), *names)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the node features: the templates with their macros replaced.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_columns,)
            The names.

        See Also
        --------
        skstruct.preprocessing.TemplateVectorizer.get_edge_feature_names_out : Of edges.
        skstruct.inspection.top_features : Names weights by them.

        Examples
        --------
        >>> from skstruct.preprocessing import TemplateVectorizer
        >>> X = [[("He", "PRP"), ("runs", "VBZ")]]
        >>> vectorizer = TemplateVectorizer("U:%X[0,0]/%x[0,1]").fit(X)
        >>> vectorizer.get_feature_names_out().tolist()
        ['U:he/PRP', 'U:runs/VBZ']
        """
        check_is_fitted(self)
        return np.asarray(TemplateNames(self.vocabulary_, self._node_features))

    @available_if(_has_edge_features)
    def get_edge_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        r"""Names of the edge features, if there is a ``B`` template with macros.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_edge_features,)
            "B" for the constant, then the templates with their macros replaced.

        See Also
        --------
        skstruct.preprocessing.TemplateVectorizer.get_feature_names_out : Of nodes.
        skstruct.inspection.transition_frame : Takes such a name.

        Examples
        --------
        >>> from skstruct.preprocessing import TemplateVectorizer
        >>> X = [[("He", "PRP"), ("runs", "VBZ")]]
        >>> vectorizer = TemplateVectorizer("U:%x[0,0]\nB:%x[0,1]").fit(X)
        >>> vectorizer.get_edge_feature_names_out().tolist()
        ['B', 'B:PRP', 'B:VBZ']
        """
        return np.asarray(TemplateNames(self.vocabulary_, self._edge_features, "B"))


def _is_file_name(text):
    """Whether a text cannot be meant as templates: one line that refers to no token."""
    if "\n" in text or "%" in text or text.lstrip().startswith("#"):
        return False
    return not re.fullmatch(r"[UuBb*][\w:-]*", text.strip()) or os.path.isfile(text)


def _check_columns(templates, tokens):
    for template in templates:
        for macro in template.macros:
            if macro.column >= len(tokens.values):
                hint = "; for one sequence of tuples pass [x]" if tokens.are_words else ""
                raise ValueError(
                    f"template {template.line!r}: column {macro.column} is out of range, "
                    f"tokens have {len(tokens.values)}{hint}"
                )


def _matrix(coded, n_tokens, n_features):
    """CSR matrix with a 1 for the known feature of each token and template."""
    found = np.full((n_tokens, len(coded)), -1, dtype=np.int32)
    for q, (own, keys) in enumerate(coded):
        if own.keys.size:
            position = np.minimum(np.searchsorted(own.keys, keys), own.keys.size - 1)
            hit = own.keys[position] == keys
            found[hit, q] = own.first + position[hit]
    used = found >= 0
    indptr = ends_of(used.sum(axis=1))
    indices = found[used]
    matrix = sparse.csr_matrix((np.ones(indices.size), indices, indptr), (n_tokens, n_features))
    matrix.sum_duplicates()
    return matrix
