"""The log of heads: what signs it, and its addresses."""
