"""Bytes and text to model and back: FlatBuffers by tables, YAML and JSON manifests."""
