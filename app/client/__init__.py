"""The other side of pull and push."""
