"""Run by the Python that has the client of Delta Sharing: a question a line, an answer a line."""

import json
import sys
import time
import traceback
from contextlib import redirect_stdout
from types import SimpleNamespace

import delta_sharing
from delta_sharing import rest_client
from delta_sharing.protocol import DeltaSharingProfile, Table
from delta_sharing.reader import DeltaSharingReader
from delta_sharing.rest_client import DataSharingRestClient
from plain_values import plain

LONGEST_S = 0.1
"""The client asks ten times more when a node fails, and would wait two minutes in all."""
rest_client.time = SimpleNamespace(sleep=lambda s: time.sleep(min(s, LONGEST_S)))


def rows(frame):
    columns = {str(name): plain(frame[name].tolist()) for name in frame.columns}
    names = list(columns)
    return {"columns": names, "rows": [list(row) for row in zip(*columns.values(), strict=True)]}


def answer(profile, asked):
    """`tables`, or `load`/`count`/`changes` with the arguments of the client's functions."""
    if asked["do"] == "tables":
        client = delta_sharing.SharingClient(profile)
        return [[each.share, each.schema, each.name] for each in client.list_all_tables()]
    url = f"{profile}#{asked['table']}"
    if asked["do"] == "version":
        return delta_sharing.get_table_version(url, asked.get("since"))
    if asked["do"] == "count":
        return len(delta_sharing.load_as_pandas(url, **asked["with"]))
    if "predicateHints" in asked["with"]:
        _, share, schema, name = url.replace("#", ".").rsplit(".", 3)
        table = Table(share=share, schema=schema, name=name)
        rest = DataSharingRestClient(DeltaSharingProfile.read_from_file(profile))
        return rows(DeltaSharingReader(table, rest, **asked["with"]).to_pandas())
    if asked["do"] == "load":
        return rows(delta_sharing.load_as_pandas(url, **asked["with"]))
    return rows(delta_sharing.load_table_changes_as_pandas(url, **asked["with"]))


def main():
    profile, out = sys.argv[1], sys.stdout
    for line in sys.stdin:
        try:
            with redirect_stdout(sys.stderr):
                told = {"told": answer(profile, json.loads(line))}
        except Exception as error:
            traceback.print_exc()
            told = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(told) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
