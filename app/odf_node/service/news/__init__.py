"""News of datasets, from the log of head moves: event streams, Atom feeds, long polls."""
