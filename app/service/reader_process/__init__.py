"""The program that reads rows: a process for each answer."""
