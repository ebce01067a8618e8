"""CI runs what README, guide and messages have readers run: ``.ci/commands.py`` finds it all."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem + "_of_ci", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ci = _load(ROOT / ".ci" / "commands.py")


def test_every_printed_command_is_in_a_table():
    found = ci.printed()
    assert ".[" in ci.sort(found)[0]
    # One of each place: a block of the README, one of the guide, a sentence, a message.
    for command, file in [
        ("python -m sphinx -b html doc doc/_build", "README.md"),
        ("python -m skstruct train train.txt model.joblib", "doc/command_line.rst"),
        ("pip install distributed", "doc/scale.rst"),
        ("pip install torch", "skstruct/torch/__init__.py"),
    ]:
        assert command in found
        assert (ROOT / file).read_text(encoding="utf-8").count(command)


@pytest.mark.parametrize(
    "command",
    ["python -m skstruct frobnicate", "pip install skstruct", "pip install '.[none]'", "make"],
)
def test_unknown_commands_are_errors(command):
    with pytest.raises(SystemExit, match=r"in no table|neither extras"):
        ci.sort({command: Path("README.md")})


def test_nothing_in_the_tables_is_of_the_past():
    found = ci.printed()
    for known in ci.NOT_RUN:
        assert any(re.fullmatch(known, part) for part in found), known
    text = " ".join(part for part in found if part.startswith("pip install "))
    assert all(name in text for name in ci.OTHERS)


def test_environments_are_filled_by_their_first_command_alone():
    """Apart from what the documents have readers install later, nothing else is installed there."""
    for name in ("contribute", "try", "all", "test", "doc"):
        parts = [part for step in ci.ENVIRONMENTS[name] for part in ci.parts(step)]
        installs = [part for part in parts if part.startswith("pip install ")]
        first = next(part for part in parts if not part.startswith("git init"))
        assert installs[0] == first
        assert installs[1:] in ([], ["pip install matplotlib"])
        assert set(installs) <= set(ci.printed())


def test_commands_are_taken_from_blocks_and_sentences():
    rst = ".. tab::\n\n   .. code-block:: sh\n\n      a \\\n          b\n      c  # d\n\nE.\n"
    assert [*ci.blocks(rst, ".rst")] == ["a b", "c"]
    assert [*ci.blocks("```sh\na && b\n```\n```python\nc\n```\n", ".md")] == ["a && b"]
    text = "``pip install 'a[b]' c``, or `python -m\nd e`; raise E(\"pip install f\")"
    assert [*ci.advice(text)] == ["pip install 'a[b]' c", "pip install f", "python -m\nd e"]
    first = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/python x.py"
    assert [*ci.parts(first)] == ["pip install .", "python x.py"]
