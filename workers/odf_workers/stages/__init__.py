"""The stages of an ingest: functions of the rows of one partition, in any process.

The driver passes in what it knows; a stage returns facts to it. Stages know neither jobs nor Spark;
`batch.py` runs them in their order. Each row carries its position (`POSITION`): its position in the
partition until the driver knows the number of rows in earlier partitions, and in the whole input
from then on.
"""
