"""Blocks of code in the documents can be pasted: they parse, and begin at the margin."""

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BUILT = {"_build", "auto_examples", "generated"}
_RST = re.compile(r"^( *)\.\. code-block:: (\w+)\n(?:\1 +:\w+:.*\n)*((?:\1 +\S.*\n|\n)+)", re.M)
_MD = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def _documents():
    folders = [ROOT / name for name in ("doc", "examples", "benchmarks", ".ci", ".github")]
    found = [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.*"))]
    texts = [path for path in found if path.suffix in (".rst", ".md")]
    return sorted(path for path in texts if not _BUILT & {*path.relative_to(ROOT).parts})


def _blocks(text, suffix):
    """Pairs (language, code as a page shows it)."""
    found = _RST.findall(text) if suffix == ".rst" else [("", *pair) for pair in _MD.findall(text)]
    return [(language, textwrap.dedent(body).strip("\n")) for _, language, body in found]


def _wrong(language, code):
    """What keeps a block from running where it is pasted; None if nothing does."""
    if language == "python":
        try:
            compile(code, "block", "exec")
        except SyntaxError as error:
            return f"{error.msg}: {error.text}"
    elif language in ("sh", "docker", "dockerfile"):
        before = "\n" + code
        indented = re.search(r"(?<!\\)\n[ \t]+\S.*", before)
        return indented and f"unexpected indent: {indented[0]}"
    elif language != "text":
        return f"unknown language {language}"
    return None


@pytest.mark.parametrize("path", _documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_code_blocks_can_be_pasted(path):
    wrong = [_wrong(*block) for block in _blocks(path.read_text(encoding="utf-8"), path.suffix)]
    assert not [*filter(None, wrong)]


@pytest.mark.parametrize("path", _documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_code_has_a_language(path):
    """Blocks of ``::`` alone are coloured as Python, and looked at by no test."""
    text = path.read_text(encoding="utf-8")
    bare = r"^(?! *\.\.)[^\n]*::$" if path.suffix == ".rst" else r"(?:^|\n\n)```\n(?=\S)"
    assert not re.findall(bare, text, re.M)


def test_clients_of_dask_are_made_once():
    """Workers that Dask starts import the script, which must not start workers again."""
    found = []
    for path in (ROOT / "doc").rglob("*.rst"):
        for _, code in _blocks(path.read_text(encoding="utf-8"), ".rst"):
            if re.search(r"\bClient\(", code):
                found.append(path.name)
                assert re.search(r'^if __name__ == "__main__":\n    with Client\(', code, re.M)
    assert set(found) == {"scale.rst", "threads.rst"}


def test_blocks_are_found_in_all_languages():
    found = {
        language: code
        for path in _documents()
        for language, code in _blocks(path.read_text(encoding="utf-8"), path.suffix)
    }
    assert {"python", "sh", "docker", "text"} <= found.keys()


@pytest.mark.parametrize(
    ("language", "code", "is_wrong"),
    [
        ("python", "import a\n\n    a.b()", True),
        ("python", "with a:\n    a.b()", False),
        ("sh", "a \\\n    b\nc", False),
        ("sh", "a\n    b", True),
        ("docker", "    # a\nRUN b", True),
        ("brainfuck", "+", True),
    ],
)
def test_wrong_blocks_are_seen(language, code, is_wrong):
    assert bool(_wrong(language, code)) == is_wrong


def test_blocks_are_taken_as_a_page_shows_them():
    rst = "A:\n\n.. code-block:: sh\n    :caption: a.sh\n\n        b\n    c \\\n        d\n\nE.\n"
    assert _blocks(rst, ".rst") == [("sh", "    b\nc \\\n    d")]
    assert _blocks("A\n```sh\nb\n```\n", ".md") == [("sh", "b")]
