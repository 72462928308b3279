"""What a node signs with, and what it signed: keys, attestations, the log of heads."""
