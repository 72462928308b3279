"""The rules of the metadata chain, as a fold over blocks: state + block → state."""
