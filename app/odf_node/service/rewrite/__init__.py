"""Changes of a dataset's history: compaction, reset and watermarks."""
