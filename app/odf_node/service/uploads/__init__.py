"""Files that clients upload before they ingest them."""
