"""Print the oldest versions that pyproject.toml allows, for ``pip install -c``."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def oldest(requirements):
    """Lower bounds as exact versions."""
    for requirement in requirements:
        found = re.fullmatch(r"([\w.-]+)>=([\w.]+)(,<[\w.]+)?", requirement)
        if found is None:
            sys.exit(f"{requirement!r} has no lower bound")
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join(oldest(project["dependencies"])))
