"""The engine port, and what judges queries before an engine sees them."""
