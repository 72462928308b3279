"""`odf-node conformance`: check whether a node follows the transfer protocols."""

from __future__ import annotations

from pathlib import Path

import click

from odf_conformance.report import data_of, junit_of, line_of, page_of, verdict
from odf_conformance.run import CHECKS, GROUPS, CheckOutcome, account_of, node_of, run_checks

from ..shell.output import FAILED, json_option, print_json
from ..shell.tokens import token_of_node

FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command()
@click.argument("url")
@token_of_node
@click.option("--account", metavar="NAME", help="Account of the token; default: the node is asked.")
@click.option("--password", metavar="TEXT", help="Password of that account, to check logins.")
@click.option("--other-token", metavar="TOKEN", help="Token of another, unprivileged account.")
@click.option("--expired-token", metavar="TOKEN", help="A token that has expired.")
@click.option("--read-only", is_flag=True, help="URL is a public dataset; publish nothing.")
@click.option(
    "--patience",
    type=click.FloatRange(0, 3600),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="How long silence is listened to; from 25 on, slow uploads are checked too.",
)
@click.option("--junit", type=FILE, help="Write a JUnit XML report.")
@click.option("--html", type=FILE, help="Write a report of one HTML page.")
@json_option
@click.pass_context
def conformance(
    ctx: click.Context,
    url: str,
    token: str | None,
    account: str | None,
    password: str | None,
    other_token: str | None,
    expired_token: str | None,
    read_only: bool,
    patience: float,
    junit: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Check the node at URL with the requests of a client; with --read-only, check the public
    dataset at URL.

    Publishes small datasets named conformance-… in the token's account, but none with --read-only.
    Ends with exit code 1 when a check fails.
    """
    node = node_of(url, read_only=read_only, patience_s=patience)
    node.token, node.other, node.expired = token, other_token, expired_token
    node.password = password
    if not read_only:
        if token is None:
            raise click.UsageError("a token is needed to publish; or use --read-only")
        node.account = account or account_of(node.origin, token)
        if node.account is None:
            raise click.UsageError("the node does not know this token")
    group = ""

    def show(outcome: CheckOutcome) -> None:
        nonlocal group
        if outcome.group != group:
            click.echo(f"{GROUPS[outcome.check.id[0]]}" if not group else f"\n{outcome.group}")
            group = outcome.group
        click.echo(line_of(outcome))

    report = run_checks(node, CHECKS, progress=(lambda _: None) if as_json else show)
    if junit is not None:
        junit.write_bytes(junit_of(report))
    if html is not None:
        html.write_text(page_of(report), encoding="utf-8")
    if as_json:
        print_json(data_of(report))
    else:
        click.echo("\n" + verdict(report))
    ctx.exit(0 if report.ok else FAILED)
