"""Jobs, as those see them for whom they run."""
