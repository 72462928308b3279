"""Datasets on their way between a node, a folder and a bucket: pulls, pushes, resumption."""
