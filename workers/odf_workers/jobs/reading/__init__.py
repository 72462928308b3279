"""Jobs that read datasets: queries of readers, and publications for other programs."""
