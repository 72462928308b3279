"""Queries of this node's readers: each runs in a confined process, which ends after its answer."""
