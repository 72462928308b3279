"""Read a changelog as a table: as of a block, a system time or an event time."""
