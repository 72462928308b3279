"""The server's side of smart transfer: the WebSocket loop around `protocol.transfer`."""
