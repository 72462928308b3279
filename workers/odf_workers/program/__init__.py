"""The worker as a process: its command line, its loop, its engines."""
