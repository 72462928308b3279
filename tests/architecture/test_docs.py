"""What the pages of documentation promise is there: links, files, commands and their options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from odf_node.cli.main import main
from odf_node.cli.shell.files import INPUT

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for folder in (ROOT, ROOT / "docs", ROOT / "examples")
    for page in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
)
MANAGE = "app/odf_node/service/pages/templates/manage.html"
HEADINGS = re.compile(r"^#+ (.*)$", re.MULTILINE)
DECISION = re.compile(
    r"^## (.*)\n\n(?:\d{4}-\d\d-\d\d, (?:in force|replaced by \[.*\]\(.*\))\.$)?", re.MULTILINE
)
LINKS = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = re.compile(r"odf-node [a-z].*")
END_OF_COMMAND = re.compile(r"\s#|\s\||\)$|\s[<>]\s|`")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    for link in LINKS.findall(_text(page)):
        path, _, anchor = link.partition("#")
        if ":" in link:
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in {_anchor(heading) for heading in HEADINGS.findall(target.read_text())}


@pytest.fixture
def files_are_elsewhere(monkeypatch):
    """The files that pages name are those of a reader."""
    monkeypatch.setattr(INPUT, "exists", False)


@pytest.mark.usefixtures("files_are_elsewhere")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_taken_as_it_is_printed(page):
    for text in _commands(_text(page)):
        _take(text)


@pytest.mark.usefixtures("files_are_elsewhere")
def test_every_command_that_the_page_to_manage_a_dataset_names_is_taken():
    named = re.findall(r'shell\("(.*?)"( ~ alias)?(?: ~ "(.*?)")?\) }}', _text(MANAGE))
    assert len(named) == 9
    for begin, alias, end in named:
        _take("odf-node " + begin + ("data" if alias else "") + end)


def test_every_page_is_in_the_list_of_pages():
    listed = [link for link in LINKS.findall(_text("docs/README.md")) if "/" not in link]
    assert sorted(listed) == sorted(
        page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md"
    )


def test_every_decision_says_since_when_it_holds_and_is_in_the_list_of_decisions():
    listed = set(LINKS.findall(_text("docs/decisions/README.md")))
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        if page.name == "README.md":
            continue
        records = list(DECISION.finditer(page.read_text()))
        assert {f"{page.name}#{_anchor(record[1])}" for record in records} <= listed
        assert [record[1] for record in records if record[0].endswith("\n")] == []


def _take(text: str) -> None:
    """Parse a command line as the program does. Raises `click.UsageError`."""
    command: click.Command = main
    context = click.Context(main, info_name="odf-node", **main.context_settings)
    words = shlex.split(text)[1:]
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
    command.make_context(name, words, parent=context)


def _text(page: str) -> str:
    return re.sub(r"\\\n\s*", " ", (ROOT / page).read_text())


def _commands(text: str) -> list[str]:
    """Commands in blocks of code; those with gaps for the reader to fill are left out."""
    blocks = [line for line in text.splitlines() if line.startswith("    ")]
    found = [END_OF_COMMAND.split(each[0])[0] for each in map(COMMAND.findall, blocks) if each]
    return [each for each in found if not re.search(r" …|\w\|\w|\[", each)]


def _anchor(heading: str) -> str:
    """As the usual viewers make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
