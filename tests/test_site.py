"""The landing page's code runs, its figures are those of their source, formulas become MathML."""

import doctest
import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOC = ROOT / "doc"


def test_code_of_the_landing_page_runs():
    failed, tried = doctest.testfile(str(DOC / "index.rst"), module_relative=False)
    assert (failed, tried) == (0, 18)


def _code_of_the_readme():
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def test_the_readme_begins_with_the_code_of_the_landing_page():
    """What runs there, with the same results, need not run here again."""
    examples = doctest.DocTestParser().get_examples((DOC / "index.rst").read_text())
    tested = {_bare(line) for example in examples for line in example.source.splitlines()}
    for block in _code_of_the_readme()[:3]:
        *lines, last = filter(None, map(_bare, block.splitlines()))
        assert set(lines) <= tested, set(lines) - tested
        assert any(last in line for line in tested), last


def _bare(line):
    """A line of code without its comment."""
    return re.sub(r"  #.*", "", line).strip()


def test_the_rest_of_the_code_of_the_readme_runs():
    sequences, scores = _code_of_the_readme()[3:]
    found = {}
    exec(sequences, found)
    crf, (x, _) = found["crf"], found["X"]
    mask = found["np"].array([[0, 0, 1], [1, 1, 1], [1, 1, 1]], bool)
    assert crf.predict([x])[0].tolist() == ["B-NP", "I-NP", "O"]
    assert crf.predict([x], allowed=[mask])[0][0] == "O"
    exec(scores, found)
    assert found["result"].optimal


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_speed_figure_shows_what_was_measured(mode):
    shown = (DOC / "_static" / f"speed-{mode}.svg").read_text(encoding="utf-8")
    seconds = [float(text) for text in re.findall(r">[^<]+: (\d+\.\d+) s<", shown)]
    rows = json.loads((DOC / "_static" / "benchmarks" / "crf.json").read_text(encoding="utf-8"))[
        "rows"
    ]
    measured = {(float(row[2]), float(row[3])) for row in rows}
    assert len(seconds) >= 8
    assert set(zip(seconds[::2], seconds[1::2], strict=True)) <= measured


def test_the_table_of_the_readme_is_what_was_measured():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = json.loads((DOC / "_static" / "benchmarks" / "crf.json").read_text(encoding="utf-8"))[
        "rows"
    ]
    for row in rows:
        assert f"| {row[2]} | {row[3]} | {row[4]} |" in readme, row


def test_formulas_become_mathml():
    pytest.importorskip("sphinx")
    from docutils import nodes

    spec = importlib.util.spec_from_file_location("mathml", DOC / "_ext" / "mathml.py")
    mathml = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mathml)
    html = "".join(mathml._convert(nodes.Text(r"\tfrac12 \|w\|^2"), block=False).split())
    assert "<mn>1</mn><mn>2</mn></mfrac>" in html


def test_readme_links_to_nothing_that_is_only_in_the_repository():
    """A link to a file is dead where the README is shown alone, as on the package index."""
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
