"""Health checks, build information and metrics for operators."""
