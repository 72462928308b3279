"""The parts of a node, made on first access; each class adds parts to those of its base class."""
