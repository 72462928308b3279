"""Commands for those who keep a dataset: create, publish, post, refresh, share."""
