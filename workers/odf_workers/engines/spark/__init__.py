"""Spark itself: its session, its JVM, its plans, and the allow-lists for them."""
