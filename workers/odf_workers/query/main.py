"""The program that forks a process for each query: it loads the engine, and answers no query.

The service starts it as a module, and sends requests through its standard input, which is a socket.
"""

from __future__ import annotations

from ..engines.datafusion import spawner

MODULE = f"{__package__}.process"


def main() -> None:
    """Serve requests until standard input ends."""
    spawner.main(MODULE)


if __name__ == "__main__":
    main()
