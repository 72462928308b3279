"""Variables and secrets for templates of sources."""
