"""The engine port and the one place that starts Spark."""
