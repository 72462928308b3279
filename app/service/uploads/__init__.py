"""Files sent ahead, to be ingested later."""
