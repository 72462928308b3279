"""Engines outside this process: in a container or at an address; and a server for our engines."""
