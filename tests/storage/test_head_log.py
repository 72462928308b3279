"""The log of heads keeps its promises in both databases."""

from __future__ import annotations

from tests.conformance.head_log import HeadLogContract


class TestHeadLogs(HeadLogContract):
    pass
