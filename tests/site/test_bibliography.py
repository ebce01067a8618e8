"""The bibliography has all papers that pages and code cite, with given names and pages."""

import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOC = ROOT / "doc"
BIB = (DOC / "references.bib").read_text(encoding="utf-8")
_LETTERS = {r"\ae": "ae", r"\o": "o", r"\l": "l"}
# Their proceedings have no page numbers.
_UNPAGED = {"ICLR"}


def _plain(text):
    """Without accents, in TeX or not."""
    text = re.sub(r"\{\\['`^\"~vc=.] ?\{?(\w)\}?\}", r"\1", text)
    for command, letters in _LETTERS.items():
        text = text.replace(f"{{{command}}}", letters)
    text = unicodedata.normalize("NFD", text.replace("{", "").replace("}", ""))
    return "".join(c for c in text if not unicodedata.combining(c))


class Entry(NamedTuple):
    """A paper."""

    kind: str
    authors: list
    fields: dict

    @property
    def first(self):
        return self.authors[0].partition(",")[0]


def _entries(bib):
    for kind, key, body in re.findall(r"^@(\w+)\{(\w+),\n(.*?)\n\}$", bib, re.M | re.S):
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", body, re.M))
        yield key, Entry(kind, _plain(fields["author"]).split(" and "), fields)


ENTRIES = dict(_entries(BIB))

_NAME = r"(?:(?:van|de|Van|De|Le|Della|Tjong Kim) )*[A-Z][a-z]?[\w'-]*[a-z]"
_INITIALS = r"(?:[A-Z]\.[ -]?)+ ?"
_YEAR = r"((?:19|20)\d\d)\b"
_FORMS = [
    # Surname, Surname and Surname 2015; A. Surname and B. Surname 2015; Surname et al. (2015)
    rf"(?:{_INITIALS})?({_NAME})(?:(?:, (?:and )?| and | & )(?:{_INITIALS})?{_NAME})*(?: et al\.)?"
    rf",? \(?{_YEAR}",
    # A. Surname, B. Surname: Title. Journal 2015
    rf"{_INITIALS}({_NAME})(?:(?:, (?:and )?| and ){_INITIALS}{_NAME})*:"
    rf"(?: [^:]{{5,260}}?)?\b{_YEAR}",
    # Surname, A., and Surname, B. (2015)
    rf"({_NAME}), {_INITIALS}(?:,? (?:and )?{_NAME}, {_INITIALS})*,? ?\(?{_YEAR}",
]
# What looks like a name with a year.
_NO_NAMES = {"Press", "Understanding", "Workshops"}


def _cited(text):
    """Surnames of first authors, and years, as prose and docstrings have them."""
    text = re.sub(r"\s*\n\s*(?:#:? ?)?", " ", _plain(text))
    for form in _FORMS:
        yield from (found for found in re.findall(form, text) if found[0] not in _NO_NAMES)


def _keys(text):
    """Keys that a page cites."""
    return {
        key.strip() for keys in re.findall(r":cite:\w+:`([^`]+)`", text) for key in keys.split(",")
    }


def _texts():
    """Pages, docstrings and comments."""
    built = {"_build", "generated", "auto_examples"}
    for folder, suffix in [
        ("doc", "rst"),
        ("skstruct", "py"),
        ("examples", "py"),
        ("benchmarks", "py"),
    ]:
        for path in sorted((ROOT / folder).rglob(f"*.{suffix}")):
            if not built & {*path.parts}:
                yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def _of(surname, year):
    """Entries of a first author and a year."""
    cited = surname.lower(), year  # "Van de Sande" begins a sentence
    return {k for k, e in ENTRIES.items() if (e.first.lower(), e.fields["year"]) == cited}


def test_every_cited_key_is_in_the_bibliography():
    missing = {(str(path), key) for path, text in _texts() for key in _keys(text) - ENTRIES.keys()}
    assert not missing


def test_every_cited_paper_is_in_the_bibliography():
    cited = {(str(path), *found) for path, text in _texts() for found in _cited(text)}
    assert len(cited) > 100
    assert not {found for found in cited if not _of(*found[1:])}


def test_every_paper_is_cited():
    cited = set().union(*(_keys(text) for _, text in _texts()))
    cited |= {key for _, text in _texts() for found in _cited(text) for key in _of(*found)}
    assert not ENTRIES.keys() - cited


def test_every_paper_is_listed_once():
    page = (DOC / "references.rst").read_text(encoding="utf-8")
    five, others = re.findall(r':filter: (?:not \()?key % "\^\((.*)\)\$"\)?$', page, re.M)
    assert five == others
    assert page.count(".. bibliography::") == 2
    assert {*five.split("|")} <= ENTRIES.keys()


def test_keys_are_unique_and_all_entries_are_read():
    keys = re.findall(r"^@\w+\{(\w+),$", BIB, re.M)
    assert len(keys) == len({*keys})
    assert {*keys} == ENTRIES.keys()


def _gaps(key, kind, authors, fields):
    """What an entry lacks."""
    paged = kind in {"article", "inproceedings", "incollection"}
    paged = paged and fields.get("booktitle") not in _UNPAGED
    tests = {
        "given names": all(re.fullmatch(r"[^,]+, \S.*", author) for author in authors),
        "year": re.fullmatch(_YEAR, fields["year"]) and fields["year"] in key,
        "pages": not paged or re.fullmatch(r"A?\d+(?:--A?\d+)?", fields.get("pages", "")),
        "journal, volume": kind != "article" or (fields.get("journal") and fields.get("volume")),
        "url": kind != "misc" or fields.get("url", "").startswith("https://"),
    }
    return [name for name, is_there in tests.items() if not is_there]


def test_entries_have_names_year_and_pages():
    found = {key: _gaps(key, *entry) for key, entry in ENTRIES.items()}
    assert not {key: lacking for key, lacking in found.items() if lacking}


def test_citations_are_seen():
    for text, found in [
        ("B. One, C. D. Two and E. Three 2005, A title", [("One", "2005")]),
        ("As in Shalev-Shwartz et al. 2011, Pegasos", [("Shalev-Shwartz", "2011")]),
        ("# Le Roux, Schmidt\n    # and Bach (2012)", [("Le Roux", "2012")]),
        ("M. Müller, A. B. Lee: A title, of two\nparts. ICML 2003.", [("Muller", "2003")]),
        ("Yanover, C., and Weiss, Y. (2003). Finding", [("Yanover", "2003")]),
        (".. [1] E. Tjong Kim Sang: On CoNLL-2002", [("Tjong Kim Sang", "2002")]),
        ("MIT Press 2011, and in 2012", []),
    ]:
        assert list(_cited(text)) == found
    found = _keys(":cite:p:`one2001,two2002` and :cite:t:`three2003`")
    assert found == {"one2001", "two2002", "three2003"}
