"""Webhooks: the node reports new blocks to other programs by signed requests."""
