"""The client: pull and push between folders, buckets and nodes, and a node's HTTP interface."""
