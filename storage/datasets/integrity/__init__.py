"""No byte is trusted that was not just hashed: reading, remembering, and what damage leads to."""
