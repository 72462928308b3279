"""Spark itself: its session, its JVM, its plans, what is allowed in them."""
