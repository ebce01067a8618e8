"""README and landing page: code gives what they say, figures are those of their source."""

import ast
import importlib.util
import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOC = ROOT / "doc"


_READMES = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


@pytest.mark.parametrize("code", _READMES, ids=lambda code: re.findall(r"import (.*)", code)[-1])
def test_expressions_of_the_readme_have_the_values_beside_them(code):
    """As a reader sees them who pastes the code; assignments are commented with words."""
    found, shown = {}, []
    for node in ast.parse(code).body:
        source = ast.get_source_segment(code, node)
        if not isinstance(node, ast.Expr):
            exec(source, found)
            continue
        shown.append(code.splitlines()[node.end_lineno - 1].rpartition("  # ")[2])
        assert repr(eval(source, found)) == shown[-1], source
    assert shown


@pytest.mark.parametrize("mode", ["light", "dark", "narrow-light", "narrow-dark"])
def test_the_speed_figure_shows_what_was_measured(mode):
    shown = (DOC / "_static" / f"speed-{mode}.svg").read_text(encoding="utf-8")
    seconds = [float(text) for text in re.findall(r">[^<]+: (\d+\.\d+) s<", shown)]
    rows = _measured("crf")
    measured = {(float(row[2]), float(row[3])) for row in rows}
    assert len(seconds) >= 8
    assert set(zip(seconds[::2], seconds[1::2], strict=True)) <= measured


def _measured(name):
    return json.loads((DOC / "_static" / "benchmarks" / f"{name}.json").read_text("utf-8"))["rows"]


def test_the_table_of_the_readme_is_what_was_measured():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    heads = ["task", "other", "other, s", "skstruct, s", "ratio", "other, quality"]
    head = f"| {' | '.join([*heads, 'skstruct, quality'])} |\n"
    table = readme.partition(head)[2].partition("\n\n")[0].splitlines()[1:]
    measured = {f"| {' | '.join(row)} |": float(row[4]) for row in _measured("readme")}
    assert len(table) >= 4
    assert set(table) <= measured.keys()
    assert min(map(measured.get, table)) < 1  # also what others do faster


def _regimes():
    """Rows of CRFsuite's seconds, ours and the ratio: to 1e-2, to 1e-3, CRFsuite's own stop."""
    for row in _measured("regimes"):
        cells = [re.findall(r"[\d.]+\d", row[column]) for column in (5, 6, 4)]
        yield [tuple(map(Decimal, cell)) for cell in cells]


def test_how_many_times_faster_is_what_was_measured():
    """The smallest and the largest ratio of the two tables on the page of benchmarks."""
    ratios = [Decimal(row[4]) for row in _measured("crf") if row[1].startswith("CRFsuite")]
    ratios += [ratio for row in _regimes() for _, _, ratio in row]
    text = (DOC / "guide" / "choosing.rst").read_text(encoding="utf-8")
    said = re.findall(r"(\d+) to (\d+)\s+times\s+faster\s+\(the\s+smallest", text)
    assert said == [(f"{min(ratios):.0f}", f"{max(ratios):.0f}")]


_COLOURED = 'html[data-theme="{}"] .highlight .k {{ color: #fff }}\n'
_DESCRIBED = '<meta name="description" content="Taggers">'
_ARTICLE = "<article class=a><h1>Text</h1><pre>{0}</pre><math>{0}</math><td>{1}</td></article>"
_HEADING = '<dt class="sig sig-object py" id="skstruct.A"><pre>class</pre>A(<pre>{}</pre>)</dt>'
# The check, a file of a build, and how many faults it has.
BUILDS = [
    ("failed", "auto_examples/plot_a.html", "F1 0.9", 0),
    ("failed", "auto_examples/plot_a.html", "<pre>Traceback (most recent call last):\n", 1),
    ("without_colours", "_static/pygments.css", ".highlight .k { color: #204A87 }\n", 2),
    (
        "without_colours",
        "_static/pygments.css",
        "".join(map(_COLOURED.format, ("light", "dark"))),
        0,
    ),
    *(("undescribed", "text.html", n * _DESCRIBED, n != 1) for n in range(3)),
    ("without_parameters", "generated/skstruct.A.html", _HEADING.format("graph"), 0),
    ("without_parameters", "generated/skstruct.A.html", _HEADING.format("args"), 1),
    ("too_long", "text.html", _ARTICLE.format(3000 * "a ", 2499 * "1 # "), 0),
    ("too_long", "text.html", _ARTICLE.format("", 2500 * "1 # "), 1),
    ("too_long", "generated/skstruct.A.html", _ARTICLE.format("", 2500 * "1 "), 0),
]


def test_faults_of_a_build_are_seen(tmp_path):
    spec = importlib.util.spec_from_file_location("check_build", DOC / "check_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for k, (check, name, text, n_faults) in enumerate(BUILDS):
        file = tmp_path / str(k) / name
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
        found = [*getattr(module, check)(tmp_path / str(k))]
        assert len(found) == n_faults, (check, text)
        assert check != "failed" or found in ([], ["plot_a.html shows a traceback"])


def test_formulas_become_mathml():
    pytest.importorskip("sphinx")
    from docutils import nodes

    spec = importlib.util.spec_from_file_location("mathml", DOC / "_ext" / "mathml.py")
    mathml = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mathml)
    html = "".join(mathml._convert(nodes.Text(r"\tfrac12 \|w\|^2"), block=False).split())
    assert "<mn>1</mn><mn>2</mn></mfrac>" in html
    assert "<mrow><mo>‖</mo><mi>w</mi><mo>‖</mo></mrow><mn>2</mn></msup>" in html


def test_links_of_the_readme_lead_somewhere():
    """Paths are those of a checkout, as a forge and the source distribution have them."""
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    paths = [target for target in targets if not target.startswith(("https://", "#"))]
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).is_file()] == []
