"""Parts that the routes of all features share: bodies, responses, dependencies."""
