"""The audit log keeps its promises in both databases."""

from __future__ import annotations

from tests.conformance.audit_log import AuditLogContract


class TestAuditLogs(AuditLogContract):
    pass
