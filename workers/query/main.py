"""The program that processes of queries are forks of: it has the engine loaded and serves nobody.

The service starts it as a module, and asks through its standard input, which is a socket.
"""

from __future__ import annotations

from ..engines.datafusion import spawner

MODULE = f"{__package__}.process"


def main() -> None:
    """Serve until standard input ends."""
    spawner.main(MODULE)


if __name__ == "__main__":
    main()
