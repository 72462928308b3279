"""The Smart Transfer Protocol, apart from sockets: messages, phases, block bundles."""
