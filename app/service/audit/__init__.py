"""Read the audit log."""
