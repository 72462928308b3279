"""A dataset as table formats see it: numbered versions, their files, rows that are not there."""
