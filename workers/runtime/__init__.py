"""What everything in a worker uses: its log, commands of the machine, progress."""
