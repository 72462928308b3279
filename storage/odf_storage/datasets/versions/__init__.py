"""A dataset as table formats see it: numbered versions, their files and their deleted rows."""
