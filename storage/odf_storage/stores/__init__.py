"""Durable state: a class for each store, and ports where there are several forms of one."""
