"""What operators see of requests: counters, log lines, audit entries, traces."""
