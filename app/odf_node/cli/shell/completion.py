"""`odf-node completion`: have a shell complete commands, options and names of datasets.

The shell runs `odf-node` at each press of Tab. Names are those of the node of `ODF_NODE_URL`, and
of named repositories; a node that does not answer at once completes nothing.
"""

from __future__ import annotations

import itertools

import click
from click.shell_completion import CompletionItem, get_completion_class

from .output import json_option, print_json

COMPLETES = "_ODF_NODE_COMPLETE"
"""What a shell sets to ask for completions. Source: click."""
SHELLS = ("bash", "zsh", "fish")
MOST_NAMES = 200
PATIENCE_S = 2.0
"""Seconds that somebody who pressed Tab waits for a node."""
COMPLETED = frozenset({"DATASET", "[SOURCE]", "[TARGET]"})
"""What help calls the arguments that may be datasets."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@json_option
def completion(shell: str, *, as_json: bool) -> None:
    """Print the lines that make SHELL complete commands, options and names of datasets.

    Names come from the node of ODF_NODE_URL and from named repositories.
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"there are no completions for {shell}")
    whole = click.get_current_context().find_root().command
    lines = made(whole, {}, "odf-node", COMPLETES).source()
    if as_json:
        print_json({"shell": shell, "lines": lines})
    else:
        click.echo(lines)


def completing(command: click.Command) -> click.Command:
    """Have the arguments of a command that are datasets completed; return the command."""
    for each in command.params:
        if isinstance(each, click.Argument) and each.metavar in COMPLETED:
            each.shell_complete = names  # type: ignore[method-assign]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            completing(inner)
    return command


def names(ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return names that begin with what is typed, and let the shell complete folders."""
    try:
        found = _found(incomplete)
    except Exception:  # a shell would show a traceback in the middle of the line
        found = []
    return [*map(CompletionItem, found), CompletionItem(incomplete, type="file")]


def _found(incomplete: str) -> list[str]:
    from dataclasses import replace

    from ...client.nodes.home import home_node, token_for
    from ...client.nodes.http import open_http
    from ...client.nodes.limits import LIMITS
    from ...client.nodes.node_api import NodeApi
    from ...client.nodes.remotes import Repositories, node_base

    repository, sign, begun = incomplete.partition("/")
    known = Repositories()
    its = known.find(repository) if sign else None
    address = home_node() if its is None else its.base
    before = "" if its is None else f"{repository}/"
    begun = incomplete if its is None else begun
    others = [f"{name}/" for name in known.all() if name.startswith(incomplete)]
    if address is None or "://" in incomplete:
        return others
    limits = replace(LIMITS, connect_s=PATIENCE_S, idle_s=PATIENCE_S, attempts=1)
    with open_http(limits) as http:
        api = NodeApi(
            node_base(address),
            token_for(address) or known.token_at(address, its),
            http=http,
            limits=limits,
        )
        listed = itertools.islice(api.datasets(search=begun or None), MOST_NAMES)
        aliases = [before + str(one["alias"]) for one in listed]
    return [alias for alias in aliases if alias.startswith(incomplete)] + others
