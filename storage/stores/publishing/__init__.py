"""What publishers leave with a node beside their data: schedules, variables of sources."""
