"""Groups of commands: loaded when they run, and the root of a program, which reports errors."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

import click

from odf_storage.runtime.features import loaded

from ...client.nodes.notices import as_lines
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
        return refuse_repeats(explain(command, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words name. A misspelt name is answered by the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:  # of click, which looks only among commands that are loaded
            name = args[0]
            if name in self.known():
                raise
            near = get_close_matches(name, list(self.known()), n=2)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.known().items()])


def refuse_repeats(command: click.Command) -> click.Command:
    """Have the command and its subcommands refuse an option that is given twice, of which click
    would silently take the last."""
    if not isinstance(vars(command).get("make_parser"), partial):
        vars(command)["make_parser"] = partial(_once_each, command.make_parser)
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        refuse_repeats(each)
    return command


def _once_each(make_parser: Any, ctx: click.Context) -> Any:
    parser = make_parser(ctx)
    parse = parser.parse_args

    def parse_args(args: list[str]) -> Any:
        found = parse(args=args)
        for param, times in Counter(found[2]).items():
            if times > 1 and isinstance(param, click.Option) and _holds_one(param):
                raise click.UsageError(
                    f"{'/'.join([*param.opts, *param.secondary_opts])} is given {times} times; "
                    "it takes one value",
                    ctx,
                )
        return found

    parser.parse_args = parse_args
    return parser


def _holds_one(option: click.Option) -> bool:
    is_switch = option.is_flag and not option.secondary_opts
    return not (option.multiple or option.count or is_switch)


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
