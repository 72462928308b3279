"""How derivatives keep up with their inputs."""
