"""Other nodes and stores as a client reaches them: addresses, limits, notices, remotes, targets."""
