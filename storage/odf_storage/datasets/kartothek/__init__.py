"""Kartothek datasets in keyed stores: read what any library wrote, write what all can read."""
