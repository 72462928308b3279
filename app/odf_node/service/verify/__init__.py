"""Verification of datasets by the node's workers, and its last result."""
