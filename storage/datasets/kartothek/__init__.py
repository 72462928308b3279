"""Kartothek datasets in keyed stores: read as any library wrote them, written for all of them."""
