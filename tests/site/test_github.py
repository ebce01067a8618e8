"""Workflows, templates of issues and the conda recipe say what pyproject.toml says."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

import skstruct

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FILES = sorted([*GITHUB.rglob("*.yml"), ROOT / ".ci" / "conda" / "recipe.yaml"])


def _read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _workflow(name):
    return _read(GITHUB / "workflows" / name)


def _steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job.get("steps", ())]


def _needs(job):
    needs = job.get("needs", [])
    return {needs} if isinstance(needs, str) else set(needs)


def _minor(version):
    return tuple(map(int, version.split(".")))


def test_files_are_yaml():
    for path in FILES:
        assert isinstance(_read(path), dict), path


def test_workflows_are_whole():
    for name in ("tests.yml", "docs.yml", "release.yml"):
        _is_whole(_workflow(name))


def _is_whole(workflow):
    assert True in workflow  # YAML 1.1 reads the key "on" so
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        if "uses" in job:
            called = _read(ROOT / job["uses"])
            assert "workflow_call" in called[True]
        else:
            assert job["runs-on"]
        assert _needs(job) <= set(workflow["jobs"])
    for step in _steps(workflow):
        assert ("run" in step) != ("uses" in step)
        assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step.get("uses", "a/b@v1"))


def test_all_supported_pythons_are_tested_on_all_systems():
    matrix = _workflow("tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    named = [
        text.rpartition(" ")[2]
        for text in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", text)
    ]
    assert matrix["python"] == named
    minors = [_minor(version) for version in named]
    assert minors == [(3, n) for n in range(minors[0][1], minors[-1][1] + 1)]
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_the_ends_of_the_range_are_tested_with_oldest_and_coming_versions():
    jobs = _workflow("tests.yml")["jobs"]
    pythons = {
        name: step["with"]["python-version"]
        for name in ("lint", "oldest", "prereleases")
        for step in jobs[name]["steps"]
        if "setup-python" in step.get("uses", "")
    }
    matrix = jobs["tests"]["strategy"]["matrix"]["python"]
    assert pythons == {"lint": matrix[0], "oldest": matrix[0], "prereleases": matrix[-1]}
    assert _workflow("tests.yml")[True]["schedule"]


def test_nothing_is_released_untested():
    jobs = _workflow("release.yml")["jobs"]
    (tests,) = [name for name, job in jobs.items() if job.get("uses", "").endswith("/tests.yml")]
    assert _needs(jobs["publish"]) == {tests, "build"}
    # A push of a tag runs the matrix and the oldest versions, as any other push.
    assert jobs[tests].keys() == {"uses"}
    for name in ("lint", "tests", "oldest"):
        assert _workflow("tests.yml")["jobs"][name]["if"] == "github.event_name != 'schedule'"


def test_no_deployment_is_cancelled():
    for name in ("docs.yml", "release.yml"):
        assert _workflow(name)["concurrency"]["cancel-in-progress"] in (
            False,
            "${{ github.event_name == 'pull_request' }}",
        )


def test_the_linter_is_the_same_everywhere():
    texts = [
        (GITHUB / "workflows" / "tests.yml").read_text(encoding="utf-8"),
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        (ROOT / "doc" / "index.rst").read_text(encoding="utf-8"),
        (ROOT / ".ci" / "commands.py").read_text(encoding="utf-8"),
    ]
    (hook,) = _read(ROOT / ".pre-commit-config.yaml")["repos"]
    versions = {re.search(r"ruff==([\d.]+)", text)[1] for text in texts}
    assert versions == {hook["rev"].removeprefix("v")}


def test_oldest_versions_are_the_lower_bounds():
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "oldest.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    pinned = [line.replace("==", ">=") for line in done.stdout.splitlines()]
    assert pinned == [bounds.split(",")[0] for bounds in PROJECT["project"]["dependencies"]]


def test_the_conda_recipe_agrees():
    recipe = _read(ROOT / ".ci" / "conda" / "recipe.yaml")
    assert recipe["context"]["version"] == skstruct.__version__
    assert f">={recipe['context']['python_min']}" == PROJECT["project"]["requires-python"]
    _, *run = recipe["requirements"]["run"]
    assert [text.replace(" ", "") for text in run] == PROJECT["project"]["dependencies"]
    assert recipe["about"]["license"] == PROJECT["project"]["license"]


def test_bug_reports_ask_for_versions():
    form = _read(GITHUB / "ISSUE_TEMPLATE" / "bug.yml")
    required = {
        part["id"]: part["attributes"]["label"]
        for part in form["body"]
        if part.get("validations", {}).get("required")
    }
    assert "python -m skstruct show-versions" in required["versions"]


def test_the_source_distribution_lists_all_that_is_at_the_top():
    listed = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    names = {"/" + path.name for path in ROOT.iterdir()}
    always = {"/pyproject.toml", "/LICENSE", "/.gitignore"}
    assert {"/.github", "/SECURITY.md", "/CODE_OF_CONDUCT.md"} <= listed
    assert listed <= names
    documents = {name for name in names if name.endswith((".md", ".toml", ".cff"))}
    assert documents <= listed | always
