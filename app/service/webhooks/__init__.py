"""Webhooks: the node tells other programs of new blocks by signed requests."""
