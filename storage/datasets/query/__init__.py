"""What the service and the processes of queries agree on."""
