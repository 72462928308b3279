"""Datasets: create, describe, share, rename and delete them."""
