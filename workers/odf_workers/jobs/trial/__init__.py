"""Trials of datasets before they are created: on a sample, and on the first rows of inputs."""
