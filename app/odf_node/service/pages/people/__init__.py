"""Pages of people: signing in, their account, password and access tokens."""
