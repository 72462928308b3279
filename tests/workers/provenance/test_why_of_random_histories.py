"""Why rows of row-by-row queries are there, in random histories: against a second look at all rows
in plain Python, which knows of no slices, bounds or engines."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.workers.derivatives import add_rows, derivative, moment, node_of, read, root
from tests.workers.provenance.asking import offsets, why
from throwaway import throwaway_stores

from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_workers.jobs.transform.run import run_transform
from odf_workers.plan.transform import IterationLimits

HISTORIES = int(os.environ.get("ODF_TEST_WHY_HISTORIES", "3"))
"""Number of random histories for each form."""
ASKED = 4
"""Number of rows of a history that are asked about."""
A, R, C, C_TO = range(4)
Row = tuple[str, str, int]
Given = Callable[[Row], list[Any]]
"""Returns what the query gives of a row of one input, beside its operation."""


@dataclass(frozen=True)
class Form:
    """A query, the columns that are compared, and the second look by input."""

    query: str
    columns: tuple[str, ...]
    given: dict[str, Given]


def odd(row: Row) -> list[Any]:
    return [(row[1], row[2] * 10)] if row[2] % 2 else []


def as_it_is(row: Row) -> list[Any]:
    return [(row[1], row[2])]


def both_numbers(row: Row) -> list[Any]:
    return [(row[1], row[2]), (row[1], row[2] + 1)]


FORMS = {
    "filter": Form(
        "select op, event_time, city, n * 10 as tens from left where n % 2 = 1",
        ("city", "tens"),
        {"left": odd, "right": lambda _: []},
    ),
    "union": Form(
        "select op, event_time, city, n from left union all "
        "select op, event_time, city, n from right",
        ("city", "n"),
        {"left": as_it_is, "right": as_it_is},
    ),
    "lists": Form(
        "select op, event_time, city, unnest([n, n + 1]) as n from left",
        ("city", "n"),
        {"left": both_numbers, "right": lambda _: []},
    ),
}


class History:
    """Two inputs that grow in several slices, with equal rows, retractions and corrections."""

    def __init__(self, folder: Path, form: Form, seed: int) -> None:
        self.folder, self.form, self.chance = folder, form, random.Random(seed)
        self.stores = throwaway_stores()
        limits = IterationLimits(rows=10_000, bytes=1 << 30)
        self.bench = node_of(self.stores, folder, limits=limits)
        self.inputs = {name: root(self.stores, name) for name in ("left", "right")}
        self.made = derivative(self.stores, "made", list(self.inputs.values()), form.query)
        self.standing: dict[str, list[Row]] = {"left": [], "right": []}
        self.rows: dict[str, list[tuple[int, Row]]] = {"left": [], "right": []}
        """All rows ever added, with their operations, by input."""

    def run(self, turn: int) -> None:
        """Both inputs get one to three slices, and the derivative is computed."""
        for name, dataset in self.inputs.items():
            for part in range(self.chance.randint(1, 3)):
                self._grow(name, dataset, at=turn * 100 + part)
        now = moment(10_000 + turn)
        run_transform(self.stores, self.made, TransformPayload(), self.bench, now=now)

    def _grow(self, name: str, dataset: Dataset, *, at: int) -> None:
        added, there = [], self.standing[name]
        for _ in range(self.chance.randint(1, 5)):
            kind = self.chance.random()
            if there and kind < 0.15:
                added.append((R, there.pop(self.chance.randrange(len(there)))))
            elif there and kind < 0.3:
                old = there.pop(self.chance.randrange(len(there)))
                new = (old[0], old[1], old[2] + self.chance.randint(1, 2))
                added += [(C, old), (C_TO, new)]
                there.append(new)
            else:
                row = (f"2024-01-0{self.chance.randint(1, 3)}T00:00:00Z", "A", self._number())
                added.append((A, row))
                there.append(row)
        self.rows[name] += added
        ops, rows = [op for op, _ in added], [row for _, row in added]
        add_rows(self.stores, dataset, rows, self.folder, at=at, ops=ops)

    def _number(self) -> int:
        return self.chance.randint(1, 4)


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("name", FORMS)
def test_a_row_names_rows_that_give_it_and_of_equal_rows_none_is_named_for_more_than_it_gives(
    tmp_path: Path, name: str, seed: int
) -> None:
    form = FORMS[name]
    history = History(tmp_path, form, seed)
    for turn in (1, 2):
        history.run(turn)
    every = read(history.stores, history.made)
    named: Counter[tuple[Any, ...]] = Counter()
    for row in history.chance.sample(every, min(ASKED, len(every))):
        values = tuple(row[column] for column in form.columns)
        step = why(history.stores, history.bench, history.made, row["offset"])
        assert step.check.verdict == "reproduced", row
        found = [(one, at) for one, each in offsets(step).items() for at in each]
        given = [
            (history.rows[one][at][0], value)
            for one, at in found
            for value in form.given[one](history.rows[one][at][1])
        ]
        # One row, or both of a correction, each of which gives something.
        assert 1 <= len(found) <= 2, (row, found)
        assert values in [value for _, value in given], (row, found)
        if len(found) == 2:
            assert {history.rows[one][at][0] for one, at in found} == {C, C_TO}, (row, found)
        adds = row["op"] in (A, C_TO)
        gives = [value == values and (op in (A, C_TO)) == adds for op, value in given]
        named[(*found, values, adds)] += 1
        assert named[(*found, values, adds)] <= sum(gives), (row, found)
