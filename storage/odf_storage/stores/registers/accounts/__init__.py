"""Accounts in SQL: who there is, what each may do and did, and what is sealed for them."""
