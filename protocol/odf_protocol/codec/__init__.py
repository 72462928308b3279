"""Conversion of bytes and text to the model and back: FlatBuffers, and YAML and JSON manifests."""
