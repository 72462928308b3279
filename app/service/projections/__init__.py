"""Datasets as tables for other programs: published into stores, or served by the node."""
