"""DataFusion, in a confined process for each query."""
