"""The source of randomness of a program: `os.urandom`, but in tests."""

from __future__ import annotations

from collections.abc import Callable

Random = Callable[[int], bytes]
"""Gives that many bytes nobody can guess."""
