"""Iceberg: datasets as tables of a catalogue that is read only. Source: Iceberg REST catalog."""
