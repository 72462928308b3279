"""Definitions of sources and transforms: whose rights they have, and their variables."""
