"""The program that reads rows, in one process for each answer."""
