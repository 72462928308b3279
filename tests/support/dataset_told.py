"""A dataset as catalogues are told of it."""

from __future__ import annotations

from odf_node.service.catalogs.told import DatasetTold

TOLD = DatasetTold(
    id="did:odf:fed01",
    name="rain",
    account="anna",
    url="http://node/anna/rain",
    base="http://node/",
    head="f1620abcdef12345678",
    version="1.2.0",
    description="Rain by the hour",
    keywords=(),
    license=None,
    spdx_id=None,
    published="2050-01-01T00:00:00Z",
    modified="2051-02-03T04:05:06Z",
    watermark=None,
    size=1,
    schema=None,
)
