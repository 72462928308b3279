"""What a client checks of what others say: keys, attestations, logs of heads, provenance."""
