"""Variables and secrets of sources."""
