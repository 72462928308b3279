"""Delivery: HTTP, WebSocket, command line, client; translates, authorizes, delegates.

Neighbours: `storage` and `protocol` below; `workers` is a stranger. Promises: no Spark in
this process, errors are mapped to answers in one file.
"""
