"""How changes and releases get in: workflows, hooks, owners and the checks of a tag."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
IN_MAKEFILE = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
MAKE = re.compile(r"\bmake (?:-s )?([a-z][a-z-]*)")


def _named(text: str) -> str:
    return text.removeprefix(".venv/bin/").removeprefix("$(BIN)/")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_unless_a_job_says_more_and_runs_targets_that_there_are(workflow):
    read = yaml.safe_load(workflow.read_text())
    assert read["permissions"] == {"contents": "read"}
    steps = [step for job in read["jobs"].values() for step in job.get("steps", [])]
    used = {step["uses"].split("/")[0] for step in steps if "uses" in step}
    assert used <= {"actions"}
    called = {name for step in steps for name in MAKE.findall(step.get("run", ""))}
    assert called <= {*IN_MAKEFILE.findall(MAKEFILE)}


def test_the_hooks_before_a_commit_are_the_commands_of_make_lint():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert recipe is not None
    commands = [line.strip().removesuffix(" .") for line in recipe[1].splitlines()]
    assert [_named(hook["entry"]) for hook in hooks] == [_named(each) for each in commands]


def test_the_first_release_is_told_on_one_page_and_mends_nothing_that_nobody_had():
    notes = (ROOT / "CHANGELOG.md").read_text().partition("\n## 0.1.0 ")[2].partition("\n## ")[0]
    assert len(notes.splitlines()) <= 120
    assert re.findall(r"^- (?:Fixed|Changed|New)\b.*", notes, re.MULTILINE) == []


def test_every_place_that_has_an_owner_is_there():
    for line in (ROOT / ".github" / "CODEOWNERS").read_text().splitlines():
        path = shlex.split(line, comments=True)[:1]
        assert path in ([], ["*"]) or (ROOT / path[0].strip("/")).exists(), line


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    ("version", "day", "refusal"),
    [
        ("1.2.3", "2030-01-02", None),
        ("1.2.4", "2030-01-02", "set the version, or name its tag"),
        ("1.2.3", "unreleased", "write the day of the release there"),
    ],
)
def test_a_tag_is_the_version_and_has_the_day_and_the_notes_of_its_release(
    tmp_path, version, day, refusal
):
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# C\n\n## 1.2.3 – {day}\n\n- New.\n\n## 1.2.2 – x\n")
    command = ["make", "-f", str(ROOT / "Makefile"), "tagged", "TAG=v1.2.3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (refusal is None), done.stderr
    assert (refusal or "") in done.stdout
    notes = tmp_path / "build" / "notes.md"
    assert (notes.read_text() if notes.exists() else None) == (None if refusal else "\n- New.\n\n")
