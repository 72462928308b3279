"""Queries of readers of this node: one confined process for each, which ends with its answer."""
