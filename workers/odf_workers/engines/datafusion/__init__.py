"""The engine port on DataFusion: one confined process for each query."""
