"""Looking after what is kept: rebuild the index, check the store, clear away garbage."""
