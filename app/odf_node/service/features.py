"""The features of a service: those of this package, and the installed ones.

What a node can live without stands in this table, and nothing else of the service knows of it:
`docs/extensions.md` says what the fields are. The core is `main.py`.
"""

from __future__ import annotations

from functools import cache

from odf_protocol.errors import NodeFault
from odf_storage.runtime.features import Feature, installed

_HERE = "odf_node.service"
OWN = (
    Feature(
        name="backups",
        settings=f"{_HERE}.system.backups:BackupSettings",
        runners=f"{_HERE}.parts.doors:runners_of_backups",
    ),
    Feature(
        name="catalogues",
        router=f"{_HERE}.catalogs.routes:router",
        dataset_routes=(f"{_HERE}.catalogs.routes:add_catalog_routes",),
    ),
    Feature(
        name="citations",
        dataset_routes=(f"{_HERE}.citation.routes:add_citation_routes",),
        page_part=f"{_HERE}.citation.citation:page_part",
    ),
    Feature(
        name="delta-sharing",
        parts=f"{_HERE}.parts.doors:parts_of_delta_sharing",
        router=f"{_HERE}.sharing.routes:router",
        knows_parameters=False,
    ),
    Feature(
        name="ducklake",
        settings=f"{_HERE}.ducklake.lakes:DuckLakeSettings",
        parts=f"{_HERE}.parts.doors:parts_of_ducklake",
        router=f"{_HERE}.ducklake.routes:router",
        missing=("/ducklake/", f"{_HERE}.ducklake.routes:not_served"),
    ),
    Feature(
        name="feeds",
        parts=f"{_HERE}.parts.doors:parts_of_feeds",
        dataset_routes=(f"{_HERE}.news.routes:add_feed_routes",),
    ),
    Feature(
        name="iceberg",
        parts=f"{_HERE}.parts.doors:parts_of_iceberg",
        router=f"{_HERE}.iceberg.routes:router",
        knows_parameters=False,
        dataset_files=f"{_HERE}.iceberg.file_routes:add_table_file_routes",
        addresses=f"{_HERE}.parts.doors:addresses_of_iceberg",
        missing=("/iceberg/", f"{_HERE}.iceberg.routes:not_served"),
    ),
    Feature(
        name="kartothek",
        parts=f"{_HERE}.parts.doors:parts_of_kartothek",
        router=f"{_HERE}.projections.gateway:router",
        dataset_routes=(f"{_HERE}.projections.routes:add_projection_routes",),
        runners=f"{_HERE}.parts.doors:runners_of_kartothek",
    ),
    Feature(
        name="mcp",
        settings=f"{_HERE}.mcp.tools:McpSettings",
        parts=f"{_HERE}.parts.doors:parts_of_mcp",
        router=f"{_HERE}.mcp.routes:router",
        knows_parameters=False,
    ),
    Feature(
        name="oai-pmh",
        parts=f"{_HERE}.parts.doors:parts_of_oai",
        router=f"{_HERE}.catalogs.oai:router",
        knows_parameters=False,
    ),
    Feature(
        name="odata",
        settings=f"{_HERE}.odata.feed:ODataSettings",
        parts=f"{_HERE}.parts.doors:parts_of_odata",
        router=f"{_HERE}.odata.routes:router",
        knows_parameters=False,
        missing=("/odata/", f"{_HERE}.odata.routes:not_served"),
    ),
    Feature(
        name="oidc",
        settings=f"{_HERE}.oidc.provider:OidcSettings",
        parts=f"{_HERE}.parts.doors:parts_of_oidc",
        addresses=f"{_HERE}.parts.doors:addresses_of_oidc",
        logins=f"{_HERE}.parts.doors:logins_of_oidc",
    ),
    Feature(
        name="openlineage",
        dataset_routes=(f"{_HERE}.lineage.openlineage:add_lineage_routes",),
    ),
    Feature(
        name="provenance",
        parts=f"{_HERE}.parts.doors:parts_of_provenance",
        dataset_routes=(f"{_HERE}.why.routes:add_why_routes",),
        dataset_pages={"why": f"{_HERE}.why.page:why_page"},
    ),
    Feature(name="quotas", router=f"{_HERE}.accounts.quotas:router"),
    Feature(
        name="trust",
        settings=f"{_HERE}.trust.log:TrustSettings",
        parts=f"{_HERE}.parts.doors:parts_of_trust",
        router=f"{_HERE}.trust.routes:router",
        dataset_routes=(
            f"{_HERE}.trust.routes:add_trust_routes",
            f"{_HERE}.trust.attestations:add_attestation_routes",
        ),
        addresses=f"{_HERE}.parts.doors:addresses_of_trust",
        page_part=f"{_HERE}.trust.attestations:page_part",
        runners=f"{_HERE}.parts.doors:runners_of_trust",
    ),
    Feature(
        name="upkeep",
        settings=f"{_HERE}.system.chores:UpkeepSettings",
        runners=f"{_HERE}.parts.doors:runners_of_upkeep",
    ),
    Feature(
        name="webhooks",
        parts=f"{_HERE}.parts.doors:parts_of_webhooks",
        dataset_routes=(f"{_HERE}.webhooks.routes:add_webhook_routes",),
        runners=f"{_HERE}.parts.doors:runners_of_webhooks",
    ),
)


@cache
def features() -> tuple[Feature, ...]:
    """Return all features of a service.

    Raises:
        FeatureUnusable: an installed one cannot be used.
    """
    taken = {feature.name for feature in OWN} & {feature.name for feature in installed()}
    if taken:
        raise NodeFault(
            "FeatureUnusable", f"an installed feature is called {min(taken)}, as one of ours"
        )
    return (*OWN, *installed())
