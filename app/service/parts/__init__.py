"""The parts of a node, made when they are asked for; each page sees those of the pages before."""
