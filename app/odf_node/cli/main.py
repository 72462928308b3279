"""`odf-node`: the command line. Every subcommand is loaded only when it runs.

Exit codes: 0 done, 1 failed or not a valid dataset, 2 wrong usage or input, 3 not found, 4 refused,
5 conflict (diverged, taken, busy), 6 damaged bytes, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from odf_storage.runtime.features import installed

from .shell.groups import HELP, LazyGroup, ReportsErrors


class MainGroup(ReportsErrors, LazyGroup):
    """The root command of `odf-node`. Installed features may add commands, and replace none."""

    def known(self) -> Mapping[str, tuple[str, str]]:
        theirs = {name: one for each in installed() for name, one in each.commands.items()}
        return {**theirs, **self.lazy}


COMMANDS = {
    "serve": ("odf_node.cli.machine.serve:serve", "Run a node."),
    "login": ("odf_node.cli.shell.tokens:login", "Log in at a node by a page in the browser."),
    "logout": ("odf_node.cli.shell.tokens:logout", "Forget the login at a node."),
    "whoami": ("odf_node.cli.shell.tokens:whoami", "Show as whom commands act at a node."),
    "account": (
        "odf_node.cli.machine.accounts:account",
        "Make, list and disable accounts of a node, set passwords.",
    ),
    "quota": ("odf_node.cli.machine.quota:quota", "Limit what accounts and a node store."),
    "token": ("odf_node.cli.machine.admin:token", "Make, list and revoke access tokens of a node."),
    "dataset": (
        "odf_node.cli.datasets.datasets:dataset",
        "Create, list and show datasets of a node.",
    ),
    "publish": (
        "odf_node.cli.datasets.publish:publish",
        "Make a dataset of a file: propose, ask, post.",
    ),
    "describe": (
        "odf_node.cli.datasets.describe:describe",
        "Set description, keywords, license and README of a dataset.",
    ),
    "access": ("odf_node.cli.datasets.access:access", "Say who may read or change a dataset."),
    "sharing": (
        "odf_node.cli.datasets.access:sharing",
        "Let others read datasets of a node by Delta Sharing.",
    ),
    "ingest": ("odf_node.cli.datasets.ingest:ingest", "Post a file of records to a dataset."),
    "retract": (
        "odf_node.cli.datasets.ingest:retract",
        "Take rows of a dataset back: show them, ask, retract.",
    ),
    "refresh": (
        "odf_node.cli.datasets.refresh:refresh",
        "Have a node fetch the polling source of a dataset.",
    ),
    "schedule": ("odf_node.cli.datasets.schedules:schedule", "Have a dataset refreshed by itself."),
    "webhook": ("odf_node.cli.datasets.access:webhook", "Have an address told of new blocks."),
    "variable": (
        "odf_node.cli.datasets.variables:variable",
        "Variables and secrets of polled sources.",
    ),
    "job": ("odf_node.cli.datasets.jobs:job", "List, show and cancel the work on a dataset."),
    "pull": (
        "odf_node.cli.copies.transfer:pull",
        "Copy a dataset, or what is new in it, into a folder.",
    ),
    "push": (
        "odf_node.cli.copies.transfer:push",
        "Publish a dataset folder, or what is new in it.",
    ),
    "repo": ("odf_node.cli.copies.transfer:repo", "Name nodes to pull from and push to."),
    "verify": (
        "odf_node.cli.copies.verify:verify",
        "Check every block, file and row of a dataset.",
    ),
    "compact": (
        "odf_node.cli.datasets.describe:compact",
        "Join small slices of a dataset on a node.",
    ),
    "reset": ("odf_node.cli.datasets.describe:reset", "Move the head of a dataset on a node back."),
    "set-watermark": (
        "odf_node.cli.datasets.describe:set_watermark",
        "Set the watermark of a dataset.",
    ),
    "conformance": (
        "odf_node.cli.copies.conformance:conformance",
        "Check a node against the protocols.",
    ),
    "fsck": (
        "odf_node.cli.machine.upkeep:fsck",
        "Check a node's stores: every object there and whole.",
    ),
    "gc": ("odf_node.cli.machine.upkeep:gc", "Remove what no chain of a node names."),
    "backup": (
        "odf_node.cli.machine.backup:backup",
        "Back up a whole node, and check its backups.",
    ),
    "restore": ("odf_node.cli.machine.backup:restore", "Restore a whole node from a backup."),
    "doctor": (
        "odf_node.cli.machine.doctor:doctor",
        "Say what is wrong with a set-up, and what to do.",
    ),
    "merge-state": (
        "odf_node.cli.machine.merge_state:merge_state",
        "Check or drop what merges keep of histories.",
    ),
    "projection": (
        "odf_node.cli.datasets.projection:projection",
        "Publish a dataset of a node as tables of other programs.",
    ),
    "index": ("odf_node.cli.machine.upkeep:index", "Make a node's index again from its objects."),
    "audit": ("odf_node.cli.machine.admin:audit", "Show who did what on a node."),
    "db": ("odf_node.cli.machine.upkeep:db", "Bring a node's database up to date."),
    "trust": (
        "odf_node.cli.copies.trust:trust",
        "Show and forget the logs of nodes, and their keys.",
    ),
    "attestations": (
        "odf_node.cli.copies.attestations:attestations",
        "Who signed what of the blocks of a dataset.",
    ),
    "monitor": (
        "odf_node.cli.copies.trust:monitor",
        "Follow the logs of nodes, and the heads they serve.",
    ),
    "evidence": ("odf_node.cli.copies.trust:evidence", "Check a file that says that a log lied."),
    "keys": ("odf_node.cli.machine.keys:keys", "Export, import and forget the keys of datasets."),
    "head-log": (
        "odf_node.cli.machine.upkeep:head_log",
        "Show and resume the signed log of heads.",
    ),
    "lineage": (
        "odf_node.cli.reads.read:lineage",
        "Show what a dataset is made of, and what of it.",
    ),
    "lookup": ("odf_node.cli.reads.read:lookup", "Print rows of a dataset that have a value."),
    "read": ("odf_node.cli.reads.read:read", "Print rows of a dataset, as of some time if asked."),
    "watch": ("odf_node.cli.datasets.refresh:watch", "Follow what changes on a node."),
    "why": ("odf_node.cli.reads.why:why", "Show why a row of a dataset is there."),
    "sql": ("odf_node.cli.reads.sql:sql", "Ask datasets of a node, or in folders, by SQL."),
    "mcp": ("odf_node.cli.reads.mcp:mcp", "Let a program with a language model read a node."),
    "log": ("odf_node.cli.datasets.describe:log", "Show the blocks of a dataset, newest first."),
    "inspect": ("odf_node.cli.copies.transfer:inspect", "Show a block file as a manifest."),
    "encode": (
        "odf_node.cli.copies.transfer:encode",
        "Turn the manifest of a block into its bytes.",
    ),
    "completion": (
        "odf_node.cli.shell.completion:completion",
        "Have a shell complete commands and names of datasets.",
    ),
    "hash": ("odf_node.cli.copies.transfer:hash_", "Physical or logical hash of a file."),
}


@click.group(
    cls=MainGroup,
    lazy=COMMANDS,
    context_settings=HELP,
    epilog="Exit codes: 0 done, 1 failed or invalid, 2 usage or input, 3 not found, 4 refused, "
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
