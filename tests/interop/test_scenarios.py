"""The checks anybody can run against a node, run against ours: both tenancies, files and S3."""

from __future__ import annotations

import pytest
from mimic import CHECKS, ConformanceCheck, NodeNeed

ONCE = {"Z15", "Z18 Z19", "Z29"}
"""What has nothing to do with tenancy, and takes its time."""
THROUGH_A_BUCKET = {
    *("A01", "A04", "A05", "A07", "B01", "B02", "B05", "B06", "B09"),
    *("C01", "C02", "C03", "C04", "Z03", "Z04", "Z16", "Z20", "Z22"),
}


def params(checks: list[ConformanceCheck], *more: str) -> list[object]:
    return [
        pytest.param(
            one,
            id=f"{one.id}: {one.sentence}",
            marks=[pytest.mark.scenario(name) for name in (*one.id.split(), *more)],
        )
        for one in checks
    ]


@pytest.mark.parametrize(
    "check", params([one for one in CHECKS if NodeNeed.MULTI not in one.needs])
)
def test_a_single_tenant_node_conforms(single, check):
    check.run(single)


@pytest.mark.parametrize("check", params([one for one in CHECKS if one.id not in ONCE]))
def test_a_multi_tenant_node_conforms(multi, check):
    check.run(multi)


@pytest.mark.scenario("C05")
@pytest.mark.scenario("C06")
@pytest.mark.parametrize("check", params([one for one in CHECKS if one.id in THROUGH_A_BUCKET]))
def test_a_node_with_its_objects_in_a_bucket_conforms(bucket, check):
    check.run(bucket)


def test_nothing_is_left_out_for_want_of_a_token(single, multi):
    for bench in (single, multi):
        left_out = {one.sentence: bench.missing(one) for one in CHECKS if bench.missing(one)}
        assert set(left_out.values()) <= {NodeNeed.MULTI}
