"""Names of columns that clients without case take for one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def same_but_case(names: Iterable[str]) -> Iterator[str]:
    """Yield a remark for each name that differs from an earlier one in case only."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            yield (
                f"columns `{other}` and `{name}` differ in case only: clients that ignore case, "
                "such as those of Delta Sharing, refuse the table"
            )
