"""Columns of datasets: names, ids, types, attributes, values, and how Arrow holds them."""
