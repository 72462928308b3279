"""Commands about copies of datasets: transfer, verification, attestations, logs of nodes."""
