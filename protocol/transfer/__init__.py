"""The Smart Transfer Protocol without a socket: messages, phases, block bundles."""
