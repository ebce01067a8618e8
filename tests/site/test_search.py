"""The site's search: words of its index, and what its scorer lowers; CI asks a built site."""

import importlib.util
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

DOC = Path(__file__).parents[2] / "doc"


def _reference(pages):
    """Pages of the objects in the tables of some pages."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    names = re.findall(r"^   (\w+(?:\.\w+)*)$", text, re.M)
    return {f"generated/skstruct.{name}" for name in names}


def test_reference_for_authors_ranks_last_and_no_other():
    scorer = (DOC / "search_scorer.js").read_text(encoding="utf-8")
    authors = [json.loads(text) for text in re.findall(r'^  (".*"),$', scorer, re.M)]
    last = re.compile(f"^({'|'.join(authors)})")
    theirs = _reference((DOC / "api" / "authors").glob("*.rst"))
    users = _reference((DOC / "api").glob("*.rst")) - theirs
    assert len(theirs) > 50 < len(users)
    assert [name for name in sorted(theirs) if not last.match(name)] == []
    assert [name for name in sorted(users) if last.match(name)] == []


def test_a_word_of_the_index_leads_to_one_page():
    """Of two pages with the same word, titles would decide which is found first."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in DOC.rglob("*.rst"))
    directives = re.findall(r"^\.\. index::((?: .*\n)+)", text, re.M)
    words = [word.strip() for words in directives for word in words.split(",")]
    assert len(words) > 300
    assert [word for word in words if not word.startswith("! ")] == []  # else found last
    assert [word for word, n in Counter(map(str.lower, words)).items() if n > 1] == []


_SEARCH = """
const Search = { _parseQuery: (query) => [query], _performSearch: (query) => pages[query] || [] };
const pages = %s;
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the search")
def test_queries_that_find_another_page_are_seen(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("check_build", DOC / "check_build.py")
    check_build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check_build)
    monkeypatch.setattr(check_build, "QUERIES", {"text": "NER, tags", "graphs items": "cuts, box"})
    pages = {"NER": ["text"], "tags": ["index", "text"], "cuts": ["items", "graphs"], "box": []}
    worst_first = {query: [[page] for page in found[::-1]] for query, found in pages.items()}
    (tmp_path / "_static").mkdir()
    for name in ("_static/language_data.js", "searchindex.js"):
        (tmp_path / name).touch()
    script = _SEARCH % json.dumps(worst_first)
    (tmp_path / "_static" / "searchtools.js").write_text(script, encoding="utf-8")
    assert [*check_build.astray(tmp_path)] == [
        "a search for tags finds ['index', 'text'], and not text first",
        "a search for box finds [], and not graphs items first",
    ]
