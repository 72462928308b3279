"""Commands on the machine of a node: serve it, keep its stores, accounts and backups."""
