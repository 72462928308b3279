"""Adapter for the state of derivatives that follow their inputs."""
