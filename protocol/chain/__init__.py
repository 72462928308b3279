"""The rules of the metadata chain as a fold: state + block → state."""
