"""What routes of all features share: bodies, answers, dependencies."""
