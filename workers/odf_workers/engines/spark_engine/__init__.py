"""The engine port on Spark."""
