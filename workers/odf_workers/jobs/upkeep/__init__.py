"""Jobs that repair and tidy: compaction, and healing of damaged objects."""
