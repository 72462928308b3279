"""The pages of one dataset, and what they show: content, blocks, viewer, queries, management."""
