"""Datasets tried before they are made: on a sample, and on the first rows of inputs."""
