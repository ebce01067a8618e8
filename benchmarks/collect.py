"""Put what a benchmark printed into a result of the documentation, and draw its page anew.

    python benchmarks/bench_crf.py --data FOLDER | tee out.txt
    python benchmarks/collect.py crf < out.txt
    python benchmarks/collect.py torch --append --conditions "One run, a quiet machine." < out.txt

NAME is a file of ``doc/_static/benchmarks``. Standard input holds a table in Markdown whose number
of columns is the result's; all its rows take the place of the old ones, or with ``--append`` come
behind them. Commit, date, versions and processor are those of now. The verdict and the conditions
stay as they are: read them again. For a new result copy one of the files and edit it.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "doc" / "_static" / "benchmarks"
PACKAGES = ["numpy", "scipy", "scikit-learn", "numba"]


def tables(text):
    """All tables in Markdown: lists of rows of cells, the first one the heads."""
    found, rows = [], []
    for line in [*text.splitlines(), ""]:
        line = line.strip()
        if line.startswith("|") and line.endswith("|"):
            cells = [cell.strip() for cell in line[1:-1].split("|")]
            if not all(cell and set(cell) <= set("-: ") for cell in cells):
                rows.append(cells)
        elif rows:
            found.append(rows)
            rows = []
    return found


def processor():
    """What the system calls the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit():
    """The commit of this checkout, with a mark if files differ from it; empty without git."""
    if shutil.which("git") is None:  # at the end of a run of hours
        return ""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude", "*"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    return done.stdout.strip()


def write(path, result):
    """A result as a file, a row a line."""
    head = json.dumps(
        {k: v for k, v in result.items() if k != "rows"}, indent=2, ensure_ascii=False
    )
    rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in result["rows"])
    path.write_text(f'{head[:-2]},\n  "rows": [\n{rows}\n  ]\n}}\n', encoding="utf-8")


def main():
    """Read the arguments and standard input."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", help="of a file in doc/_static/benchmarks, without .json")
    parser.add_argument("--append", action="store_true", help="keep the old rows")
    parser.add_argument("--table", type=int, default=1, help="which table of that width, from 1")
    parser.add_argument("--conditions", help="what the page says of the run")
    parser.add_argument("--cores", default="one core", help="in what the page says of the machine")
    given = parser.parse_args()
    path = RESULTS / f"{given.name}.json"
    if not path.is_file():
        parser.error(f"there is no {path}")
    result = json.loads(path.read_text(encoding="utf-8"))
    width = len(result["columns"])
    fitting = [rows for rows in tables(sys.stdin.read()) if {*map(len, rows)} == {width}]
    if not 1 <= given.table <= len(fitting):
        parser.error(f"{len(fitting)} tables of {width} columns ({result['columns']}) were read")
    heads, *rows = fitting[given.table - 1]
    if heads != result["columns"]:
        print(f"the columns were {result['columns']}, and are {heads}", file=sys.stderr)
    if not given.append:
        result["columns"] = heads
        for name in ("value", "x", "y"):
            if result["figure"].get(name, heads[0]) not in heads:
                parser.error(f"the figure draws {result['figure'][name]!r}: edit {path}")
    python = platform.python_version()
    result |= {
        "rows": [*(result["rows"] if given.append else []), *rows],
        "commit": commit(),
        "date": date.today().isoformat(),
        "machine": f"{given.cores} of an {processor()}, {platform.system()}, CPython {python}",
        "versions": {name: version(name) for name in PACKAGES},
        "conditions": given.conditions or result["conditions"],
    }
    write(path, result)
    subprocess.run([sys.executable, str(ROOT / "doc" / "benchmarks.py")], check=True)
    print(f"read the verdict in {path} again:\n{result['verdict']}")


if __name__ == "__main__":
    main()
