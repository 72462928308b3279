"""Integrity: only freshly hashed bytes are trusted; caching of hashes, and healing of damage."""
