"""Planning: pure functions from the state of chains to the work to be done."""
