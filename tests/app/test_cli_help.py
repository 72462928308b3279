"""What `--help` says: every command has an example, and every example is one that is taken."""

from __future__ import annotations

import shlex
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from odf_node.cli.main import main
from odf_node.cli.shell.files import INPUT
from odf_node.cli.shell.help import EXAMPLES
from odf_workers.main import COMMANDS
from odf_workers.main import main as worker


def _leaves(group: click.Group, path: str = "") -> list[str]:
    context = click.Context(group, **main.context_settings)
    found: list[str] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            found += _leaves(command, f"{path}{name} ")
        else:
            found.append(f"{path}{name}")
    return found


COMMAND_PATHS = _leaves(main)
CALLS = [(path, example) for path, examples in EXAMPLES.items() for example in examples]


def test_every_command_has_examples_and_every_example_a_command():
    assert set(EXAMPLES) == set(COMMAND_PATHS)


@pytest.mark.parametrize("path", COMMAND_PATHS)
def test_a_commands_help_shows_its_examples_and_cuts_nothing_short(path):
    text = CliRunner().invoke(main, [*path.split(), "--help"], terminal_width=80).stdout
    assert all(line in text for example in EXAMPLES[path] for line in example.splitlines())
    group = CliRunner().invoke(main, [path.split()[0], "--help"], terminal_width=80).stdout
    assert "..." not in group.partition("Commands:")[2]


@pytest.mark.parametrize(("path", "example"), CALLS)
def test_an_example_is_taken_as_it_stands(path, example, monkeypatch):
    monkeypatch.setattr(INPUT, "exists", False)  # the files of examples are not here
    command: click.Command = main
    words = _words(example)
    context = click.Context(main, info_name="odf-node", **main.context_settings)
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
    assert path.endswith(str(name))
    command.make_context(name, words, parent=context)


@pytest.mark.parametrize("path", [path for path in COMMAND_PATHS if path not in ("mcp", "serve")])
def test_every_command_but_those_that_serve_takes_json(path):
    command, context = main, click.Context(main, **main.context_settings)
    for name in path.split():
        command = command.get_command(context, name)
    assert any("--json" in parameter.opts for parameter in command.params)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_commands_of_the_worker_show_an_example_that_is_taken(name):
    command = worker.get_command(click.Context(worker), name)
    assert command is not None
    assert command.get_short_help_str(limit=100) == COMMANDS[name][1]
    parts = sorted(command.commands) if isinstance(command, click.Group) else []
    for part in parts or [""]:
        given = [name, part] if part else [name]
        text = CliRunner().invoke(worker, [*given, "--help"]).stdout
        words = shlex.split(text[text.rindex("odf-worker ") :].replace("\\\n", " "))
        assert words[1 : 1 + len(given)] == given
        command.make_context(name, words[2:], **worker.context_settings)
    assert "..." not in CliRunner().invoke(worker, ["--help"]).stdout.partition("Commands:")[2]


def _words(example: str) -> list[str]:
    """The words after `odf-node`, of the last part of a pipe, without what shells take."""
    text = example.replace("\\\n", " ")
    text = text[text.rindex("odf-node ") :].rstrip(")")
    words = shlex.split(text, comments=True)[1:]
    for sign in ("<", ">"):
        if sign in words:
            words = words[: words.index(sign)]
    return words


def test_the_help_of_the_worker_waits_for_nothing_it_does_not_need():
    code = (
        "import sys; from click.testing import CliRunner; from odf_workers.main import main; "
        "CliRunner().invoke(main, ['--help'], catch_exceptions=False); "
        "print({'sqlalchemy', 'pydantic', 'pyarrow', 'pyspark', 'msgspec'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"
