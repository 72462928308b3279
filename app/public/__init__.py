"""What `import odf_node` offers to programs: datasets as tables, and publishing."""
