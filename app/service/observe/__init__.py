"""What operators see of requests: counts, log lines, deeds, traces."""
