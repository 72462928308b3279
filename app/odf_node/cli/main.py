"""`odf-node`: the command line. Every subcommand is loaded only when it runs.

Exit codes: 0 done, 1 failed or not a valid dataset, 2 wrong usage, 3 not found, 4 refused,
5 conflict (diverged, taken, busy), 6 damaged bytes, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from odf_storage.runtime.features import installed, loaded

from ..client.nodes.notices import as_lines
from .help import explain

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(click.Group):
    """A group of commands that imports a command (`module:attribute`) only when it is needed.

    `lazy` maps the name of a command to its `module:attribute` and its help in one line.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(*args, **more)
        self.lazy = dict(lazy)

    def known(self) -> Mapping[str, tuple[str, str]]:
        return self.lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.known())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self.lazy.get(cmd_name) or self.known().get(cmd_name)
        if found is None:
            return None
        command = loaded(found[0])
        if not isinstance(command, click.Command):
            raise TypeError(f"{found[0]} is no command")
        if ctx.resilient_parsing:  # a shell asks for completions
            from .completion import completing

            completing(command)
        return explain(command, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.known().items()])


class ReportsErrors(click.Command):
    """The root command of a program. It alone turns errors into messages and exit codes."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(words, prog_name, complete_var, False, **extra)
        try:
            result = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
        except Exception as error:
            from .output import report_error

            sys.exit(report_error(error, as_json="--json" in words))
        except KeyboardInterrupt:
            sys.exit(130)
        sys.exit(result if isinstance(result, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Output that nobody reads any more, as of `| head`, ends it quietly."""
        try:
            with as_lines():
                return super().invoke(ctx)
        except BrokenPipeError as error:  # here, because click would exit with 1
            from .output import report_error

            return report_error(error, as_json=False)


class MainGroup(ReportsErrors, LazyGroup):
    """The root command of `odf-node`. Installed features may add commands, and replace none."""

    def known(self) -> Mapping[str, tuple[str, str]]:
        theirs = {name: one for each in installed() for name, one in each.commands.items()}
        return {**theirs, **self.lazy}


COMMANDS = {
    "serve": ("odf_node.cli.serve:serve", "Run a node."),
    "login": ("odf_node.cli.tokens:login", "Log in at a node by a page in the browser."),
    "logout": ("odf_node.cli.tokens:logout", "Forget the login at a node."),
    "whoami": ("odf_node.cli.tokens:whoami", "Show as whom commands act at a node."),
    "account": (
        "odf_node.cli.accounts:account",
        "Make, list and disable accounts of a node, set passwords.",
    ),
    "quota": ("odf_node.cli.quota:quota", "Limit what accounts and a node store."),
    "token": ("odf_node.cli.admin:token", "Make, list and revoke access tokens of a node."),
    "dataset": ("odf_node.cli.datasets:dataset", "Create, list and show datasets of a node."),
    "publish": (
        "odf_node.cli.publish:publish",
        "Make a dataset of a file: propose, ask, post.",
    ),
    "describe": (
        "odf_node.cli.describe:describe",
        "Set description, keywords, license and README of a dataset.",
    ),
    "access": ("odf_node.cli.access:access", "Say who may read or change a dataset."),
    "sharing": (
        "odf_node.cli.access:sharing",
        "Let others read datasets of a node by Delta Sharing.",
    ),
    "ingest": ("odf_node.cli.ingest:ingest", "Post a file of records to a dataset."),
    "retract": (
        "odf_node.cli.ingest:retract",
        "Take rows of a dataset back: show them, ask, retract.",
    ),
    "refresh": (
        "odf_node.cli.refresh:refresh",
        "Have a node fetch the polling source of a dataset.",
    ),
    "schedule": ("odf_node.cli.schedules:schedule", "Have a dataset refreshed by itself."),
    "webhook": ("odf_node.cli.access:webhook", "Have an address told of new blocks."),
    "variable": ("odf_node.cli.variables:variable", "Variables and secrets of polled sources."),
    "job": ("odf_node.cli.jobs:job", "List, show and cancel the work on a dataset."),
    "pull": (
        "odf_node.cli.transfer:pull",
        "Copy a dataset, or what is new in it, into a folder.",
    ),
    "push": ("odf_node.cli.transfer:push", "Publish a dataset folder, or what is new in it."),
    "repo": ("odf_node.cli.transfer:repo", "Name nodes to pull from and push to."),
    "verify": ("odf_node.cli.verify:verify", "Check every block, file and row of a dataset."),
    "compact": ("odf_node.cli.describe:compact", "Join small slices of a dataset on a node."),
    "reset": ("odf_node.cli.describe:reset", "Move the head of a dataset on a node back."),
    "set-watermark": ("odf_node.cli.describe:set_watermark", "Set the watermark of a dataset."),
    "conformance": (
        "odf_node.cli.conformance:conformance",
        "Check a node against the protocols.",
    ),
    "fsck": (
        "odf_node.cli.upkeep:fsck",
        "Check a node's stores: every object there and whole.",
    ),
    "gc": ("odf_node.cli.upkeep:gc", "Remove what no chain of a node names."),
    "backup": (
        "odf_node.cli.backup:backup",
        "Back up a whole node, and check its backups.",
    ),
    "restore": ("odf_node.cli.backup:restore", "Restore a whole node from a backup."),
    "doctor": ("odf_node.cli.doctor:doctor", "Say what is wrong with a set-up, and what to do."),
    "merge-state": (
        "odf_node.cli.merge_state:merge_state",
        "Check or drop what merges keep of histories.",
    ),
    "projection": (
        "odf_node.cli.projection:projection",
        "Publish a dataset of a node as tables of other programs.",
    ),
    "index": ("odf_node.cli.upkeep:index", "Make a node's index again from its objects."),
    "audit": ("odf_node.cli.admin:audit", "Show who did what on a node."),
    "db": ("odf_node.cli.upkeep:db", "Bring a node's database up to date."),
    "trust": ("odf_node.cli.trust:trust", "Show and forget the logs of nodes, and their keys."),
    "attestations": (
        "odf_node.cli.attestations:attestations",
        "Who signed what of the blocks of a dataset.",
    ),
    "monitor": (
        "odf_node.cli.trust:monitor",
        "Follow the logs of nodes, and the heads they serve.",
    ),
    "evidence": ("odf_node.cli.trust:evidence", "Check a file that says that a log lied."),
    "keys": ("odf_node.cli.keys:keys", "Export, import and forget the keys of datasets."),
    "head-log": ("odf_node.cli.upkeep:head_log", "Show and resume the signed log of heads."),
    "lineage": (
        "odf_node.cli.read:lineage",
        "Show what a dataset is made of, and what of it.",
    ),
    "lookup": ("odf_node.cli.read:lookup", "Print rows of a dataset that have a value."),
    "read": ("odf_node.cli.read:read", "Print rows of a dataset, as of some time if asked."),
    "watch": ("odf_node.cli.refresh:watch", "Follow what changes on a node."),
    "why": ("odf_node.cli.why:why", "Show why a row of a dataset is there."),
    "sql": ("odf_node.cli.sql:sql", "Ask datasets of a node, or in folders, by SQL."),
    "mcp": ("odf_node.cli.mcp:mcp", "Let a program with a language model read a node."),
    "log": ("odf_node.cli.describe:log", "Show the blocks of a dataset, newest first."),
    "inspect": ("odf_node.cli.transfer:inspect", "Show a block file as a manifest."),
    "encode": ("odf_node.cli.transfer:encode", "Turn the manifest of a block into its bytes."),
    "completion": (
        "odf_node.cli.completion:completion",
        "Have a shell complete commands and names of datasets.",
    ),
    "hash": ("odf_node.cli.transfer:hash_", "Physical or logical hash of a file."),
}


@click.group(
    cls=MainGroup,
    lazy=COMMANDS,
    context_settings=HELP,
    epilog="Exit codes: 0 done, 1 failed or invalid, 2 usage, 3 not found, 4 refused, "
    "5 conflict, 6 damaged, 130 interrupted.",
)
@click.version_option(package_name="odf-node", prog_name="odf-node")
def main() -> None:
    """A repository node for Open Data Fabric, and its client.

    Name a DATASET by its folder, its URL, its name or id on the node of --node or ODF_NODE_URL, or
    by REPOSITORY/NAME (see `odf-node repo`). A folder that is there goes before a name.
    A URL odf+http(s)://… uses the smart protocol, http(s)://… the simple one. The access token
    comes from --token, from ODF_NODE_TOKEN or from `odf-node login`.
    """
