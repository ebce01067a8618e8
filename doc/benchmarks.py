"""Write benchmarks.rst, benchmarks/*.rst and figures from the results in _static/benchmarks/*.json.

``python doc/benchmarks.py`` writes the pages and an SVG beside each JSON file, ``--check`` only
compares. A result has its table as it was printed (columns, rows), where it comes from (script,
commit, commits of some rows by their first cells, date, machine, conditions), the page and the
topic it is listed under, who wins (verdict), and what to draw (figure):

* ``{"kind": "bars", "labels": [columns], "value": column, "unit": "x"}``: a bar per row; the value is
  what `pattern` finds in the cell, by default the number behind "=" or the only one. Rows whose
  labels match `peer` are grey. Rows without a value are left out.
* ``{"kind": "scatter", "x": column, "y": column}``: a point per row, both axes logarithmic.
"""

import json
import math
import re
import sys
from html import escape
from pathlib import Path

DOC = Path(__file__).parent
RESULTS = DOC / "_static" / "benchmarks"
PAGE = DOC / "benchmarks.rst"
# Pages below it, by the name that results have for them: title, and a line for the overview.
PAGES = {
    "training": (
        "Speed of training",
        "CRFs next to CRFsuite and Wapiti, penalties, choosing C, structural SVMs, PyTorch.",
    ),
    "quality": (
        "Quality and records",
        "Best published results, orders of chains, label sets, hidden layers, word alignment.",
    ),
    "scale": (
        "Prediction, memory and scale",
        "Tagging speed, peak memory, shards, file sizes, threads.",
    ),
    "inference": ("MAP inference and cuts", "Next to toulbar2, PyMaxflow, SciPy and lap."),
}
OURS, PEER, TEXT = "#2f6fb5", "#8c8c8c", "#666666"
ROW, BARS = 18, 300
CHARACTER, CAPITAL = 6.4, 9.0  # widths of letters in the widest font that browsers draw them in

NOTE = ".. This page is written by doc/benchmarks.py.\n"
HEAD = f"""\
{NOTE}
Benchmarks
==========

Results printed by the scripts in ``benchmarks/``, each with its commit and machine. Both sides of a comparison do the
same work on the same machine. Each table is one run unless noted; seconds of different tables are not comparable. We
also report the cases where another package is faster. ``benchmarks/README.md`` explains how to run the scripts.
"""
SUMMARY = """\
Seconds are CPU seconds of one core. The ratio is the time of the other package divided by skstruct's: above 1, skstruct
is faster. Quality is chunk F1, accuracy or subset accuracy in percent, or the percentage of identical solutions.
"""
FOLDED = "400 sentences", "C = 50"  # in tasks of the summary whose rows are in the full table alone


def results():
    """All results in order, by their names."""
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")
    }
    return dict(sorted(found.items(), key=lambda item: (item[1]["order"], item[0])))


def number(cell, pattern=None):
    """The number that a cell of a table stands for; None if it has none."""
    found = re.search(pattern or r"(?:.*= *)?(\d*\.?\d+(?:e[-+]\d+)?)", cell)
    return None if found is None else float(found[1])


def _svg(width, height, title, parts):
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" font-size="12" fill="{TEXT}">'
    )
    name = f"<title>{escape(title)}</title>"
    return "\n".join([head, name, *parts, "</svg>"]) + "\n"


def _text(x, y, text, anchor="start"):
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _width(text):
    return sum(CAPITAL if letter.isupper() else CHARACTER for letter in text)


def bars(result):
    """A bar per row."""
    figure, columns = result["figure"], result["columns"]
    labels = [columns.index(name) for name in figure["labels"]]
    at = columns.index(figure["value"])
    shown = []
    for row in result["rows"]:
        value = number(row[at], figure.get("pattern"))
        if value is not None:
            shown.append((", ".join(row[j] for j in labels), value))
    most = max(value for _, value in shown)
    left = 12 + math.ceil(max(_width(label) for label, _ in shown))
    parts = [_text(0, 14, figure["title"])]
    for k, (label, value) in enumerate(shown):
        y, width = 26 + k * ROW, BARS * value / most
        is_peer = "peer" in figure and re.search(figure["peer"], label)
        colour = PEER if is_peer else OURS
        parts.append(_text(left - 6, y + 11, label, "end"))
        parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="13" fill="{colour}"/>')
        parts.append(_text(left + width + 5, y + 11, f"{value:g}{figure['unit']}"))
    return _svg(left + BARS + 70, 30 + ROW * len(shown), figure["title"], parts)


def scatter(result):
    """A point per row, with the line where both are equal."""
    figure, columns = result["figure"], result["columns"]
    x, y = (columns.index(figure[axis]) for axis in "xy")
    points = [(row[0], number(row[x]), number(row[y])) for row in result["rows"]]
    points = [point for point in points if None not in point]
    exponents = [math.log10(value) for _, *pair in points for value in pair]
    low, high = math.floor(min(exponents)), math.ceil(max(exponents))
    size, left, top = 300, 50, 26

    def place(value):
        return size * (math.log10(value) - low) / (high - low)

    frame = f'<path d="M{left} {top}V{top + size}H{left + size}" fill="none" stroke="{TEXT}"/>'
    equal = (
        f'<path d="M{left} {top + size}L{left + size} {top}" stroke="{TEXT}" '
        'stroke-dasharray="4 4"/>'
    )
    parts = [_text(0, 14, figure["title"]), frame, equal]
    for power in range(low, high + 1):
        tick = place(10.0**power)
        parts.append(_text(left - 6, top + size - tick + 4, f"{10.0**power:g}", "end"))
        parts.append(_text(left + tick, top + size + 16, f"{10.0**power:g}", "middle"))
    for name, across, up in points:
        parts.append(
            f'<circle cx="{left + place(across):.1f}" cy="{top + size - place(up):.1f}" r="4" '
            f'fill="{OURS}" fill-opacity="0.7"><title>{escape(name)}</title></circle>'
        )
    return _svg(left + size + 60, top + size + 24, figure["title"], parts)


def table(columns, rows):
    """Lines of a table."""
    yield from (".. list-table::", "   :header-rows: 1", "")
    for row in [columns, *rows]:
        if len(row) != len(columns):
            raise ValueError(f"{row} has not the {len(columns)} cells of {columns}")
        for k, cell in enumerate(row):
            yield f"   {' ' if k else '*'} - {cell}".rstrip()
    yield ""


def folded(title, lines):
    """Lines that a click opens."""
    yield from (f".. dropdown:: {title}", "")
    yield from (f"   {line}".rstrip() for line in lines)


def details(name, result):
    """Lines of the figure, the table and where they come from."""
    yield from (
        f".. image:: /_static/benchmarks/{name}.svg",
        f"   :alt: {result['figure']['title']}",
        "",
    )
    yield from table(result["columns"], result["rows"])
    versions = ", ".join(f"{package} {v}" for package, v in result.get("versions", {}).items())
    others = "".join(f" ({row}: ``{at}``)" for row, at in result.get("commits", {}).items())
    yield (
        f"{result['conditions']} ``benchmarks/{result['script']}`` on commit "
        f"``{result['commit']}``{others}, {result['date']}, {result['machine']}"
        f"{'; ' + versions if versions else ''}."
    )
    yield ""


def summary(name, result):
    """Lines of the table on top: rows of one run, each with its commit."""
    commits = result.get("commits", {})
    rows = [
        [*row, f"``{commits.get(row[0], result['commit'])}``"]
        for row in result["rows"]
        if not row[0].endswith(FOLDED)
    ]
    yield from (SUMMARY, *table([*result["columns"], "commit"], rows), result["verdict"], "")
    yield from folded(result["title"], details(name, result))


def overview(found):
    """Lines of the page that links to the others."""
    yield HEAD
    for name, (title, content) in PAGES.items():
        yield f"* :doc:`{title} <benchmarks/{name}>`: {content}"
    yield from ("", "Summary", "-------", "")
    for name, result in found.items():
        if result["page"] == "overview":
            yield from summary(name, result)
    yield from (".. toctree::", "   :hidden:", "")
    yield from (f"   benchmarks/{name}" for name in PAGES)


def below(page, found):
    """Lines of one page by topic: the verdicts, with the tables folded beneath."""
    title = PAGES[page][0]
    yield from (NOTE, title, "=" * len(title), "", "Conditions: :doc:`/benchmarks`.", "")
    shown = {name: result for name, result in found.items() if result["page"] == page}
    for topic in dict.fromkeys(result["topic"] for result in shown.values()):
        yield from (topic, "-" * len(topic), "")
        for name, result in shown.items():
            if result["topic"] == topic:
                yield from (f"**{result['title']}.** {result['verdict']}", "")
                yield from folded(f"Table, {len(result['rows'])} rows", details(name, result))


def written():
    """The texts of all files, by path."""
    found = results()
    draw = {"bars": bars, "scatter": scatter}
    files = {RESULTS / f"{name}.svg": draw[r["figure"]["kind"]](r) for name, r in found.items()}
    pages = {PAGE: overview(found)}
    pages |= {PAGE.with_suffix("") / f"{page}.rst": below(page, found) for page in PAGES}
    return files | {path: "\n".join(lines).rstrip() + "\n" for path, lines in pages.items()}


def main(arguments):
    """Write the files, or compare them."""
    files = written()
    if "--check" in arguments:
        old = [
            path
            for path, text in files.items()
            if not path.is_file() or path.read_text(encoding="utf-8") != text
        ]
        print(*old, sep="\n")
        return int(bool(old))
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
