"""The source of randomness of a program: `os.urandom`, except in tests."""

from __future__ import annotations

from collections.abc import Callable

Random = Callable[[int], bytes]
"""Returns that many bytes that nobody can guess."""
