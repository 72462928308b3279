"""`odf-node greet`."""

import click


@click.command()
@click.argument("who")
def greet(who: str) -> None:
    """Greet somebody."""
    click.echo(f"Hello, {who}!")
