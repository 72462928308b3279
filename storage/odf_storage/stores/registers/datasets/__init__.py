"""What is kept of datasets beside their chains, in SQL: lists, followers, schedules, damages."""
