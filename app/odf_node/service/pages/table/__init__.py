"""The table of all pages."""
