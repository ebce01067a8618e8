"""Files of MeCab: seeds of dictionaries, char.def, unk.def; and the costs of a model."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from ..core.arguments import check_real
from ..core.text_files import lines_of, name_of
from .dictionary import Dictionary

_ENCODINGS = "utf-8", "euc-jp"
_FIELDS = "expected surface,left,right,cost,field,..."
_LARGEST = 32767  # of a cost: MeCab stores 16 bits
# The same of char.def: first code that MeCab refuses, number of kinds, largest length.
_CODES, _KINDS, _LONGEST = 0xFFFF, 17, 15


def read_mecab(seeds, char_def, unk_def) -> Dictionary:
    """Read seed files, one or a list; errors name the file and the line."""
    kinds, ranges = {}, []
    for where, line in _lines(char_def):
        line = line.partition("#")[0].split()
        if not line:
            continue
        code = re.fullmatch(r"0[xX]([0-9a-fA-F]+)(?:\.\.0[xX]([0-9a-fA-F]+))?", line[0])
        if code and len(line) > 1:
            first, last = (int(n, 16) for n in (code[1], code[2] or code[1]))
            if first > last:
                raise ValueError(f"{where}: the codes {line[0]} are in the wrong order")
            if last >= _CODES:
                raise ValueError(f"{where}: MeCab takes codes below {_CODES:#x}, got {line[0]}")
            ranges.append((first, last, tuple(line[1:]), where))
        elif not code and len(line) == 4 and all(map(str.isdecimal, line[1:])):
            if line[0] in kinds:
                raise ValueError(f"{where}: the kind {line[0]} is defined twice")
            if int(line[3]) > _LONGEST or len(kinds) == _KINDS:
                raise ValueError(
                    f"{where}: MeCab takes {_KINDS} kinds, of length {_LONGEST} at most"
                )
            kinds[line[0]] = (line[1] != "0", line[2] != "0", int(line[3]))
        else:
            raise ValueError(f"{where}: expected NAME invoke group length, or codes and kinds")
    needed = [(kind, name_of(char_def)) for kind in ("DEFAULT", "SPACE")]  # as MeCab does
    for kind, where in [*needed, *((k, r[3]) for r in ranges for k in r[2])]:
        if kind not in kinds:
            raise ValueError(f"{where}: the kind {kind} is not defined")
    unknown = []
    for where, (kind, *fields) in _rows(unk_def):
        if kind not in kinds:
            raise ValueError(f"{where}: the kind {kind} is not in {name_of(char_def)}")
        unknown.append((kind, *fields))
    if lacking := set(kinds) - {kind for kind, *_ in unknown}:
        raise ValueError(f"{name_of(unk_def)}: no unknown word is of kind {min(lacking)}")
    seeds = seeds if isinstance(seeds, Iterable) and not isinstance(seeds, str) else [seeds]
    words = [row for seed in seeds for _, row in _rows(seed)]
    return Dictionary(words, kinds, [row[:3] for row in ranges], unknown)


def _lines(path) -> Iterator[tuple[str, str]]:
    """Lines with their places."""
    errors = {}
    for encoding in _ENCODINGS:
        lines = []
        try:
            for line in lines_of(os.fspath(path), encoding):  # an open file is read once
                lines.append(line)
            break
        except ValueError as error:
            errors.setdefault(len(lines), error)
    else:
        raise errors[max(errors)]  # of the encoding in which more lines are text
    for number, line in enumerate(lines, 1):
        yield f"{name_of(path)}, line {number}", line


def _rows(path) -> Iterator[tuple[str, tuple]]:
    """Surface and fields of lines of words."""
    for where, line in _lines(path):
        try:
            row = next(csv.reader([line], strict=True), ())
        except csv.Error as error:  # too long a field, or quotes
            raise ValueError(f"{where}: {error}") from None
        if not line.strip():
            continue
        if len(row) < 5 or not row[0] or not all(re.fullmatch(r"-?\d+", n) for n in row[1:4]):
            raise ValueError(f"{where}: {_FIELDS}, got {line!r}")
        yield where, (row[0], *row[4:])


def write_mecab(
    folder,
    dictionary: Dictionary,
    scores: np.ndarray,
    classes: Iterable[int],
    table: np.ndarray,
    factor: float,
) -> float:
    """Write scores as costs; returns the factor, which is lowered where costs are too large.

    `scores` and `classes` are those of the words and of the unknown words, `table` (n_classes,
    n_classes) of (right, left).
    """
    check_real("factor", factor, positive=True)
    top = max(np.abs(scores).max(initial=0.0), np.abs(table).max(initial=0.0))
    if not np.isfinite(top):
        raise ValueError("the weights are not finite: they cannot be costs")
    factor = min(float(factor), float(_LARGEST / top)) if top > 0 else float(factor)
    costs = (-np.rint(factor * scores)).astype(int).tolist()
    out = io.StringIO(), io.StringIO()
    n, writers = len(dictionary.words), [csv.writer(one, lineterminator="\n") for one in out]
    each = zip(dictionary.words + dictionary.unknown, classes, costs, strict=True)
    for q, ((surface, *fields), c, cost) in enumerate(each):
        writers[q >= n].writerow([surface, c + 1, c + 1, cost, *fields])
    # Class 0 is that of the ends of a sentence, whose connections cost nothing.
    matrix = np.pad((-np.rint(factor * table)).astype(int), ((1, 0), (1, 0)))
    rows = [f"{len(matrix)} {len(matrix)}"]
    rows += [f"{j} {k} {cost}" for (j, k), cost in np.ndenumerate(matrix)]
    kinds = [f"{kind} {int(a)} {int(b)} {size}" for kind, (a, b, size) in dictionary.kinds.items()]
    codes = [f"0x{a:04X}..0x{b:04X} {' '.join(names)}" for a, b, names in dictionary.ranges]
    config = [f"cost-factor = {max(round(factor), 1)}"]
    config += ["bos-feature = BOS/EOS", "config-charset = UTF-8"]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "lex.csv": out[0].getvalue(),
        "unk.def": out[1].getvalue(),
        "matrix.def": "\n".join(rows) + "\n",
        "char.def": "\n".join(kinds + codes) + "\n",
        "dicrc": "\n".join(config) + "\n",
    }.items():
        (folder / name).write_bytes(text.encode())
    return factor
