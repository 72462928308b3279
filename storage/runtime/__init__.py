"""What every program of the node has: clock, logs, traces, networks, threads."""
