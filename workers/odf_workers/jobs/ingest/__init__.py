"""From rows to commits: event time, merges with the history, slices, receipts."""
