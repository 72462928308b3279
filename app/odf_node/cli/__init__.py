"""The odf-node command line."""
