"""Planning: pure functions from chain state to what is to be done."""
