"""The client: pull and push between folders, buckets and nodes, and the HTTP interface of a
node."""
