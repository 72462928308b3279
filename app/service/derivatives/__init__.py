"""Derivatives: refreshed by hand, and kept up with their inputs."""
