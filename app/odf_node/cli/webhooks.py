"""`odf-node webhook`: addresses that the node notifies of new blocks."""

from __future__ import annotations

from typing import Any

import click

from .dataset_requests import ask, say, say_each, say_removed
from .output import json_option
from .tokens import token_option


@click.group()
def webhook() -> None:
    """Manage your webhooks at DATASET: signed requests that report new blocks."""


@webhook.command("add")
@click.argument("url", metavar="DATASET")
@click.argument("address", metavar="ADDRESS")
@click.option(
    "--since", metavar="BLOCK", help="Tell what is behind it, or `beginning`; default: the head."
)
@token_option
@json_option
def add(url: str, address: str, *, since: str | None, token: str | None, as_json: bool) -> None:
    """Have the node notify ADDRESS. The secret that signs the requests is shown only once."""
    made = ask(url, token, "POST", "webhooks", {"url": address, "since": since})
    _say_secret(made, as_json=as_json)


@webhook.command("list")
@click.argument("url", metavar="DATASET")
@token_option
@json_option
def listed(url: str, token: str | None, as_json: bool) -> None:
    """List the webhooks with their states."""
    found = ask(url, token, "GET", "webhooks")
    say_each(found, "webhooks", _line, as_json=as_json)


@webhook.command("show")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def show(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Show a webhook and its newest attempts."""
    found = ask(url, token, "GET", f"webhooks/{name}")
    say(found, _line, as_json=as_json)
    if not as_json:
        for attempt in found.get("attempts", []):
            click.echo(_attempt_line(attempt))


@webhook.command("ping")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def ping(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Send an empty delivery, and print the outcome."""
    attempt = ask(url, token, "POST", f"webhooks/{name}/ping")
    say(attempt, _attempt_line, as_json=as_json)


@webhook.command("replay")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@click.option(
    "--since", metavar="BLOCK", help="Or `beginning`; default: go on where deliveries ended."
)
@token_option
@json_option
def replay(url: str, name: str, *, since: str | None, token: str | None, as_json: bool) -> None:
    """Deliver the blocks after a given one again, or resume a paused webhook."""
    query = {} if since is None else {"since": since}
    say(ask(url, token, "POST", f"webhooks/{name}/replay", **query), _line, as_json=as_json)


@webhook.command("rotate")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def rotate(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Sign with a new secret, which is shown only once. For a while the old secret signs, too."""
    made = ask(url, token, "POST", f"webhooks/{name}/secret")
    _say_secret(made, as_json=as_json)


@webhook.command("remove")
@click.argument("url", metavar="DATASET")
@click.argument("name", metavar="ID")
@token_option
@json_option
def remove(url: str, name: str, token: str | None, as_json: bool) -> None:
    """Remove a webhook; the node delivers nothing more to it."""
    ask(url, token, "DELETE", f"webhooks/{name}")
    say_removed(name, as_json=as_json)


def _say_secret(made: dict[str, Any], *, as_json: bool) -> None:
    """Print a webhook and its secret, which the node does not show again."""
    say(made, _line, as_json=as_json)
    if not as_json:
        click.echo(f"secret  {made['secret']}")


def _line(each: dict[str, Any]) -> str:
    problem = each["problem"] or {}
    columns = (each["id"], f"{each['state']:<6}", each["url"], problem.get("message", ""))
    return "  ".join(columns).rstrip()


def _attempt_line(attempt: dict[str, Any]) -> str:
    answered = attempt["error"] or "taken"
    columns = (attempt["at"], str(attempt["status"] or "-"), answered, attempt["message"])
    return "  ".join(columns)
