"""A dataset's history: its verification, its versions, and changes of its chain."""
