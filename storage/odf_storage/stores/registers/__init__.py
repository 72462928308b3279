"""Registers of a node in SQL: accounts, rights, audit, damages, and what follows datasets."""
