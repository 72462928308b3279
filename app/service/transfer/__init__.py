"""The socket loop that feeds protocol.transfer."""
