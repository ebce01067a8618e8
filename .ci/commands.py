"""Run the commands that README, guide, contributors' notes and messages print, as a reader does.

    python .ci/commands.py               # is every printed command in a table below?
    python .ci/commands.py NAME ...      # run these environments, two at a time

An environment is a copy of the repository, in a temporary folder or in that named by ENVIRONMENTS,
with a virtual environment that its first command fills, and nothing else does. A command that no
table has ends this with an error: say where it shall run.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = "He\\tPRP\\tB-NP\\nruns\\tVBZ\\tB-VP\\n\\nShe\\tPRP\\tB-NP\\n"

# What runs where: printed commands, and between them our own, which look at what they did.
ENVIRONMENTS = {
    "contribute": [
        "git init -q",
        "python3 -m venv .venv"
        " && .venv/bin/pip install -e '.[test,plot,doc]' 'ruff==0.17.5' pre-commit",
        ".venv/bin/pre-commit install",
        "ruff check . && ruff format --check .",
        "python -m pytest -q tests/site/test_code_blocks.py -k why",
        "python -m pytest -q tests/site/test_docstrings.py -k numpydoc",
        "python -m pytest -q tests/site/test_examples.py -k 'gallery or tags or pages_end'",
        "python -m pytest -q tests/metrics",
    ],
    "try": [
        "python3 -m venv .venv && .venv/bin/pip install -q ."
        " && .venv/bin/python examples/plot_digit_strings.py | tee said.txt",
        "grep '57.8%' said.txt && grep '65.2%' said.txt",  # as README says
        f"printf '{COLUMNS}' | tee train.txt > test.txt",
        "python -m skstruct train train.txt model.joblib",
        "python -m skstruct tag model.joblib test.txt -o tagged.txt --check",
        'echo "He PRP" | python -m skstruct tag model.joblib',
        "python -m skstruct template --columns 2",
        "python -m skstruct show-versions",
        "python -m skstruct compile --graph chain --estimator SAGCRF --features csr",
        "cd examples/deploy && python train.py model.joblib",
        "cd examples/deploy && "
        """echo '[["He", "PRP"], ["reckons", "VBZ"]]' | python tag.py model.joblib""",
        "pip install matplotlib",
        "python examples/plot_digit_strings.py --plot dates.png && test -s dates.png",
    ],
    "all": [
        "pip install '.[all]'",
        "python -c 'import matplotlib.pyplot, pandas, skops.io, rich, sklearn.callback'",
        f"printf '{COLUMNS}' > train.txt && python -m skstruct train train.txt model.skops",
    ],
    "references": [
        "pip install . librosa hmmlearn pytest hypothesis fastapi httpx2 optuna spacy",
        "python -m pytest -q -p no:cacheprovider tests/test_reference_decoders.py"
        " | tee said.txt && ! grep skipped said.txt",
        "python -m pytest -q -p no:cacheprovider tests/site/test_code_blocks.py"
        " -k 'FastAPI or Optuna or spaCy' | tee said.txt && ! grep skipped said.txt",
    ],
    "test": [
        "python3 -m venv .venv && .venv/bin/pip install -q '.[test]'"
        " && .venv/bin/python -m pytest -q -n 2 --dist worksteal -m 'not slow'"
    ],
    "doc": [
        "pip install '.[doc]' && python -m sphinx -b html doc doc/_build",
        "python doc/check_build.py doc/_build",
    ],
    # Every other `pip install`: what pip finds for all of them at once it finds for each.
    "resolve": [],
}
# What CI adds to a printed command, so that a warning ends it.
MORE = {"python -m sphinx -b html doc doc/_build": "-q -W -j 2"}
# Printed commands that CI does not run, and why.
NOT_RUN = {
    r"python benchmarks/.*": "minutes to hours, on data that are not in the repository",
    r"python train\.py model\.joblib --conll2000": "fetches a corpus",
    r"python -m skstruct compile --graph .*my_package.*": "a package of the reader",
    r"python -m skstruct compile --model .*": "cli/test_compiling.py",
    r"python -m skstruct compile --(graph chain \"Tree|map auto).*": "core/jit/test_compile.py",
    r"python -m skstruct( (train|tag|compile|versions))?": "run above, with arguments",
    r"python -m sphinx -D plot_gallery=0 .*": "the whole build is run",
    r"python -m pytest -q tests/torch .*": "torch is large",
    r"docker build .*|echo .* \| docker run .*": "needs Docker",
    r"rattler-build build .*": "needs conda's tools",
}
# Packages that no extra of pyproject.toml names, which documents and messages advise to install.
OTHERS = "PyMaxflow lap pillow playwright pre-commit pytorch-crf ruff thinqpbo".split()


def documents():
    """What users and contributors read, and the sources, whose docstrings and messages they see."""
    listed = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")]
    for folder in ("doc", "examples", "benchmarks", "skstruct"):
        listed += (ROOT / folder).rglob("*.*")
    built = {"_build", "auto_examples", "generated"}
    kinds = ".md", ".rst", ".py"
    return sorted(p for p in listed if p.suffix in kinds and not built & {*p.parts})


def blocks(text, suffix):
    """Lines of shell that a document shows, continued ones as one, without comments."""
    if suffix == ".md":
        found = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    else:
        pattern = r"^( *)\.\. code-block:: sh\n((?:\1 +\S.*\n|\n)+)"
        found = [block for _, block in re.findall(pattern, text, re.M)]
    for block in found:
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if command := re.sub(r"\s+#.*", "", line).strip():
                yield command


def advice(text):
    """Commands within sentences and messages."""
    argument = r"(?:'[^'\n]+'|-e|[\w.][\w.-]*)"
    yield from re.findall(rf"pip install {argument}(?: {argument})*", text)
    yield from re.findall(r"`((?:python -m|rattler-build)\s[^`]+)`", text)


def parts(command):
    """The commands that ``&&`` joins, without what only says where an environment is."""
    for part in command.split(" && "):
        plain = re.sub(r"(^|\s)\.venv/bin/", r"\1", part.split(" | tee ")[0]).strip()
        plain = re.sub(r"^pip install -q ", "pip install ", plain)
        if not re.match(r"(python3 -m venv|source|cd|export) ", plain):
            yield plain


def printed():
    """Each part of each printed command, and a file that has it."""
    found = {}
    for path in documents():
        text = path.read_text(encoding="utf-8")
        commands = [] if path.suffix == ".py" else [*blocks(text, path.suffix)]
        for command in commands + [" ".join(words.split()) for words in advice(text)]:
            found.update((part, path.relative_to(ROOT)) for part in parts(command))
    return found


def to_resolve(commands):
    """All extras, and the packages that the ``pip install`` of the commands name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = {re.match(r"[\w.-]+", line)[0] for lines in extras.values() for line in lines}
    wanted = {f".[{','.join(extras)}]"}
    for command in commands:
        for target in shlex.split(command)[2:]:
            inside = re.fullmatch(r"\.(?:\[([\w,]+)\])?", target)
            if inside:
                missing = {*(inside[1] or "").split(",")} - {"", *extras}
            else:
                missing = {re.match(r"[\w-]*", target)[0]} - {"-e", *named, *OTHERS}
                wanted.add(target)
            if missing:
                sys.exit(f"{command}: neither extras of pyproject.toml nor in OTHERS: {missing}")
    return sorted(wanted - {"-e"})


def sort(found):
    """What pip has to resolve; ends with an error if some commands are in no table."""
    run = {part for steps in ENVIRONMENTS.values() for step in steps for part in parts(step)}
    others = {part: path for part, path in found.items() if part not in run}
    installs = [part for part in others if part.startswith("pip install ")]
    unknown = [
        f"{path}: {part}"
        for part, path in others.items()
        if part not in installs and not any(re.fullmatch(known, part) for known in NOT_RUN)
    ]
    if unknown:
        sys.exit("in no table of .ci/commands.py:\n" + "\n".join(unknown))
    return to_resolve(installs)


def run(name, quiet):
    """Run the commands of an environment; returns what they printed if one fails."""
    start, place = time.perf_counter(), Path(os.environ.get("ENVIRONMENTS") or mkdtemp()) / name
    shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", ".venv", "_build"))
    steps = ENVIRONMENTS[name]
    if name == "resolve":
        steps = [shlex.join(["pip", "install", "--dry-run", *sort(printed())])]
    if not any("-m venv" in step for step in steps):
        steps = ["python3 -m venv .venv", *steps]
    environment = os.environ | {
        "PATH": f"{place}/.venv/bin:{os.environ['PATH']}",
        "PIP_COMPILE": "0",  # Python compiles what it imports
        "PIP_QUIET": "1",
    }
    shown = [f"{name} failed"]
    for step in steps:
        for part, more in MORE.items():
            step = step.replace(part, f"{part} {more}")
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step],
            cwd=place,
            env=environment,
            text=True,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
        )
        shown.append(f"$ {step}\n{done.stdout or ''}")
        if done.returncode:
            return "\n".join(shown)
    print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return None


def main(names):
    """Look at all printed commands, then run the environments, each in a folder of its own."""
    resolved = sort(printed())
    if not names:
        print("all commands are known; for pip to resolve:", *resolved)
    with ThreadPoolExecutor(2) as two:
        failed = [*filter(None, two.map(lambda name: run(name, len(names) > 1), names))]
    if failed:
        sys.exit("\n\n".join(failed))


if __name__ == "__main__":
    main(sys.argv[1:])
