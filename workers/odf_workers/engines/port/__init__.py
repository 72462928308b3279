"""The engine port, and the checks of a query before an engine runs it."""
