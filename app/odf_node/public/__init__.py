"""The public API of `import odf_node`: datasets as tables, and publishing."""
