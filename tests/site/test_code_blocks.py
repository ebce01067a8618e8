"""Blocks of code in the documents can be pasted: they parse, begin at the margin, and run."""

import ast
import builtins
import doctest
import importlib
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BUILT = {"_build", "auto_examples", "generated"}
_RST = re.compile(r"^( *)\.\. code-block:: (\w+)\n(?:\1 +:\w+:.*\n)*((?:\1 +\S.*\n|\n)+)", re.M)
_PYTHON = re.compile(_RST.pattern.replace(r"(\w+)", "(python)"), re.M)
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


def test_code_blocks_can_be_pasted():
    blocks = [
        (path.name, language, code)
        for path in _documents()
        for language, code in _blocks(path.read_text(encoding="utf-8"), path.suffix)
    ]
    assert {"python", "sh", "docker", "text"} <= {language for _, language, _ in blocks}
    wrong = [(name, _wrong(*block)) for name, *block in blocks]
    assert not [found for found in wrong if found[1]]


def test_code_has_a_language():
    """Blocks of ``::`` alone are coloured as Python, and looked at by no test."""
    bare = {".rst": r"^(?! *\.\.)[^\n]*::$", ".md": r"(?:^|\n\n)```\n(?=\S)"}
    texts = [(path, path.read_text(encoding="utf-8")) for path in _documents()]
    found = {path.name: re.findall(bare[path.suffix], text, re.M) for path, text in texts}
    assert not {name: lines for name, lines in found.items() if lines}


# Blocks of Python that are only parsed, by what is in them, and why.
NOT_RUN = {
    r"\bClient\(": "a cluster; tests/distributed",
    r"load_parallel_text\(": "a corpus that is not in the repository",
    r"\btorch\b|crf_loss\(": "torch is large; tests/torch runs six, and has the calls of others",
    r"MySpace|check_structure\((graph|OneEvent)": "run whole elsewhere",
}
_COLUMNS = """
import gzip, pathlib
_text = "He PRP B-NP\\nruns VBZ B-VP\\n\\n" * 4
pathlib.Path("first.txt").write_text(_text), pathlib.Path("template").write_text("U0:%x[0,0]")
for _name in ("second.txt.gz", "part1.txt.gz", "part2.txt.gz"):
    with gzip.open(_name, "wt") as _file:
        _file.write(_text)
"""
# What a reader has, where a block needs more than the code above it on its page.
GIVEN = {
    r"iter_conll\(files": _COLUMNS,
    r"X_dev": "X_dev, y_dev = X, y",
    r"to_wapiti": "from skstruct.preprocessing import TemplateVectorizer\n"
    "_words = [[x[0] for x in words] for words in X]\n"
    'model = make_pipeline(TemplateVectorizer("U0:%x[0,0]"), SAGCRF()).fit(_words, train.entity)',
    r"checkpoint=\"training\"": "_task = iter(sentences), iter(data.train.chunk)\n"
    'shards = pack_shards(*_task, "shards", shard_size=40, vectorizer=vectorizer)',
}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Not of this list: its kernels are in no file, see test_guide.py.
_PAGES = [path for path in _documents() if path.suffix == ".rst" and path.stem != "own_solver"]
PAGES = [p for p in _PAGES if re.search(r"^ *>>> |code-block:: python", p.read_text("utf-8"), re.M)]
# Recipes are pasted one at a time: each section of these pages runs alone.
RECIPES = [p for p in PAGES if p.stem in ("integrations", "recipes", "workflow")]


def _fitting(table, code):
    return [pattern for pattern in table if re.search(pattern, code)]


class Parser(doctest.DocTestParser):
    """Finds the blocks of Python of a page, too, as examples without output.

    A block with a caption is a file: it is written, and runs alone. One that needs what GIVEN has
    runs in a copy of the page's names.
    """

    def __init__(self, not_run=NOT_RUN):
        self._not_run = not_run

    def parse(self, string, name="<string>"):
        return super().parse(_PYTHON.sub(self._example, string), name)

    def _example(self, block):
        code = textwrap.dedent(block[3]).strip("\n") + "\n"
        if _fitting(self._not_run, code):
            return block[0]
        given = "".join(GIVEN[pattern] + "\n" for pattern in _fitting(GIVEN, code))
        names = "dict(globals())" if given else "globals()"
        if file := re.search(r":caption: (\S+\.py)", block[0]):
            names = f"__import__('pathlib').Path({file[1]!r}).write_text({code!r}) and {{}}"
        quiet = "with __import__('contextlib').redirect_stdout(__import__('io').StringIO())"
        return f"\n>>> {quiet}: exec({given + code!r}, {names})\n" + "\n" * block[0].count("\n")


@pytest.mark.parametrize("path", [p for p in PAGES if p not in RECIPES], ids=lambda path: path.stem)
def test_code_of_pages_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    options = {"module_relative": False, "optionflags": FLAGS, "parser": Parser()}
    assert doctest.testfile(str(path), **options).failed == 0


def _recipes():
    for path in RECIPES:
        # Other packages have warnings of their own.
        marks = [pytest.mark.filterwarnings("default")] if path.stem == "integrations" else []
        for section in re.split(r"^(?=.+\n-{4,}\n)", path.read_text("utf-8"), flags=re.M)[1:]:
            yield pytest.param(section, id=section.partition("\n")[0], marks=marks)


def _of_recipe(section):
    """All code of a recipe: what the page shows, and what makes its files."""
    lines = [example.source for example in doctest.DocTestParser().get_examples(section)]
    return ast.parse("".join(lines) + "\n".join(code for _, code in _blocks(section, ".rst")))


def _undefined(tree):
    """Names that the code uses and does not define, and those that skstruct does not have."""
    defined, used, missing = {*vars(builtins)}, set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            defined.update(name.asname or name.name.partition(".")[0] for name in node.names)
            if isinstance(node, ast.ImportFrom) and node.module.startswith("skstruct"):
                module = importlib.import_module(node.module)
                missing.update(n.name for n in node.names if not hasattr(module, n.name))
    return (used - defined) | missing


def _packages(tree):
    found = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found += [n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names]
    return {name.partition(".")[0] for name in found}


@pytest.mark.parametrize("section", [*_recipes()])
def test_recipes_run_alone_where_their_packages_are_installed(section, tmp_path, monkeypatch):
    tree = _of_recipe(section)
    assert not _undefined(tree)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for package in sorted(_packages(tree) - {*re.findall(r":caption: (\w+)\.py", section)}):
        pytest.importorskip(package)
    parser = Parser([pattern for pattern in NOT_RUN if "torch" not in pattern])
    parsed = parser.get_doctest(section, {}, "recipe", None, 0)
    assert doctest.DocTestRunner(optionflags=FLAGS).run(parsed).failed == 0


def test_wrong_names_of_recipes_are_seen():
    for code, wrong in [
        ("from skstruct import SAGCRF, absent\nSAGCRF(absent)", {"absent"}),
        ("import torch.nn\nx = torch.nn\nprint([y for y in x], forgotten)", {"forgotten"}),
        ("def f(x):\n    return x\nf(1)", set()),
    ]:
        assert _undefined(ast.parse(code)) == wrong


def test_every_block_runs_once_or_is_named_with_a_reason():
    found = [code for path in PAGES for _, _, code in _PYTHON.findall(path.read_text("utf-8"))]
    assert all(any(re.search(p, code) for code in found) for p in [*NOT_RUN, *GIVEN])
    tried = [
        example
        for path in PAGES
        for example in Parser().get_examples(path.read_text("utf-8"))
        if ": exec(" in example.source
    ]
    skipped = [code for code in found if _fitting(NOT_RUN, code)]
    assert len(tried) + len(skipped) == len(found)
    assert len(skipped) <= 18
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "skstruct").rglob("*.py"))
    assert "code-block:: python" not in sources  # docstrings have examples, which run


def test_clients_of_dask_are_made_once():
    """Workers that Dask starts import the script, which must not start workers again."""
    found = []
    for path in (ROOT / "doc").rglob("*.rst"):
        for _, code in _blocks(path.read_text(encoding="utf-8"), ".rst"):
            if re.search(r"\bClient\(", code):
                found.append(path.name)
                assert re.search(r'^if __name__ == "__main__":\n    with Client\(', code, re.M)
    assert set(found) == {"scale.rst", "threads.rst"}


def test_wrong_blocks_are_seen():
    for language, code, is_wrong in [
        ("python", "import a\n\n    a.b()", True),
        ("python", "with a:\n    a.b()", False),
        ("sh", "a \\\n    b\nc", False),
        ("sh", "a\n    b", True),
        ("docker", "    # a\nRUN b", True),
        ("brainfuck", "+", True),
    ]:
        assert bool(_wrong(language, code)) == is_wrong, code


def test_blocks_are_taken_as_a_page_shows_them():
    rst = "A:\n\n.. code-block:: sh\n    :caption: a.sh\n\n        b\n    c \\\n        d\n\nE.\n"
    assert _blocks(rst, ".rst") == [("sh", "    b\nc \\\n    d")]
    assert _blocks("A\n```sh\nb\n```\n", ".md") == [("sh", "b")]
