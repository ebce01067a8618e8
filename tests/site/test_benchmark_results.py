"""Committed results of benchmarks: the page is drawn from them, and a new run can be added."""

import importlib.util
import io
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]


def _script(*parts):
    path = ROOT.joinpath(*parts)
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


drawing, collecting = _script("doc", "benchmarks.py"), _script("benchmarks", "collect.py")


def test_the_page_and_its_figures_are_current():
    for path, text in drawing.written().items():
        assert path.read_text(encoding="utf-8") == text, f"run doc/benchmarks.py: {path.name}"


@pytest.mark.parametrize("name", drawing.results())
def test_results_say_where_they_come_from(name):
    result = drawing.results()[name]
    assert (ROOT / "benchmarks" / result["script"]).is_file()
    assert re.fullmatch(r"[0-9a-f]{7,}(-dirty)?", result["commit"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", result["date"])
    assert all(result[key] for key in ("machine", "conditions", "verdict"))
    svg = ElementTree.parse(drawing.RESULTS / f"{name}.svg").getroot()
    drawn = [part for part in svg if part.tag.endswith(("rect", "circle"))]
    assert 1 < len(drawn) <= len(result["rows"])


@pytest.mark.parametrize(
    ("cell", "pattern", "value"),
    [
        ("59.5", None, 59.5),
        ("1.48 / 0.36 = 4.1x", None, 4.1),
        ("97/.02", r"/([\d.]+)", 0.02),
        ("2e-06", None, 2e-6),
        ("not reached", None, None),
        ("", None, None),
    ],
)
def test_numbers_of_cells(cell, pattern, value):
    assert drawing.number(cell, pattern) == value


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match="has not the 2 cells"):
        list(drawing.table(["a", "b"], [["1"]]))


def test_the_summary_has_eight_rows_of_one_result():
    page = drawing.PAGE.read_text(encoding="utf-8")
    summary = page[: page.index(".. dropdown::")].split("   * - ")[2:]  # without the head
    result = drawing.results()["readme"]
    cells = [
        [cell.strip() for cell in re.split(r"\n +- ", row.split("\n\n")[0])] for row in summary
    ]
    assert len(cells) == 8
    for *row, commit in cells:
        assert row in result["rows"]
        assert commit.strip("`") == result.get("commits", {}).get(row[0], result["commit"])


def test_a_run_takes_the_place_of_a_result(tmp_path, monkeypatch, capsys):
    old = json.loads((drawing.RESULTS / "prediction.json").read_text(encoding="utf-8"))
    path = tmp_path / "prediction.json"
    path.write_text(json.dumps(old), encoding="utf-8")
    printed = "loading\n| a |\n|---|\n| 1 |\n\n| tagger | M tokens/s |\n|---|--:|\n| new | 9.5 |\n"
    monkeypatch.setattr(collecting, "RESULTS", tmp_path)
    monkeypatch.setattr(collecting, "commit", lambda: "abcdef0")
    monkeypatch.setattr(collecting.subprocess, "run", lambda *given, **options: None)

    def collect(*arguments):
        monkeypatch.setattr(sys, "argv", ["collect.py", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(printed))
        collecting.main()
        return json.loads(path.read_text(encoding="utf-8"))

    added = collect("prediction", "--append")
    assert added["rows"] == [*old["rows"], ["new", "9.5"]]
    new = collect("prediction", "--conditions", "Quiet.")
    assert new["rows"] == [["new", "9.5"]]
    assert (new["commit"], new["conditions"]) == ("abcdef0", "Quiet.")
    assert set(new["versions"]) >= {"numpy", "numba"}
    assert new["figure"] == old["figure"]
    assert old["verdict"] in capsys.readouterr().out
    with pytest.raises(SystemExit):
        collect("prediction", "--table", "2")
    with pytest.raises(SystemExit):
        collect("no-such-result")
