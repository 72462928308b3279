"""Reads a dataset of a folder with an older generation of the library, in its own Python (3.8).

    python older_library.py FOLDER < questions

Questions and answers are JSON: `{"uuid", "column", "predicates"}` gives `{"rows", "labels"}`: rows
that fit, with their columns by name, and the index on the column.
"""

import json
import sys
import warnings
from functools import partial

warnings.filterwarnings("ignore")

import storefact  # noqa: E402
from kartothek.api.dataset import DatasetFactory  # noqa: E402
from kartothek.io.eager import read_table  # noqa: E402


def plain(value):
    """As JSON has it; times and dates as texts."""
    if value is None or value != value:
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value


def main():
    store = partial(storefact.get_store_from_url, "hfs://" + sys.argv[1])
    answers = []
    for asked in json.load(sys.stdin):
        named = {"dataset_uuid": asked["uuid"], "store": store}
        predicates = asked.get("predicates")
        if predicates is not None:
            predicates = [[tuple(term) for term in some] for some in predicates]
        # Version 3 asks which of several tables is meant.
        table = {"table": "table"} if "table" in read_table.__code__.co_varnames else {}
        frame = read_table(predicates=predicates, **named, **table)
        rows = [
            {name: plain(value) for name, value in row.items()} for row in frame.to_dict("records")
        ]
        labels = {}
        if asked.get("column"):
            factory = DatasetFactory(asked["uuid"], store).load_index(asked["column"])
            index = factory.indices[asked["column"]]
            labels = [[plain(value), sorted(some)] for value, some in index.index_dct.items()]
        answers.append({"rows": rows, "labels": labels})
    json.dump(answers, sys.stdout)


main()
