"""Imported first: the tasks and fits of the other benchmarks are in the folder above."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
if str(HERE.parent) not in sys.path:
    sys.path.append(str(HERE.parent))
