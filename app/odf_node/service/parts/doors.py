"""What the records of `features.py` name to make the parts, addresses and runners of our doors.

Only the records name this module: it imports every door.
"""

from __future__ import annotations

from collections.abc import Iterator

from odf_storage.runtime.extras import need
from odf_storage.stores.index.sql_disclosures import Disclosures
from odf_storage.stores.wakeups.wakeups import Topic

from ..accounts.login import LoginWay
from ..catalogs.oai import Harvesting
from ..ducklake.lakes import DescribedTables, DuckLakeSettings, LakeLimits, Lakes
from ..ducklake.taken_back import DUCKLAKE_STEPS, TakenBackReads
from ..http.addresses import Route
from ..iceberg.file_routes import TableFiles
from ..iceberg.table import FILE_MEMORY_BYTES, FileMemory
from ..iceberg.tables import MAX_SNAPSHOTS, IcebergTables
from ..mcp.door import MCP_BODY_BYTES, McpDoor
from ..mcp.tools import McpSettings, McpTools
from ..news.atom import AtomFeeds
from ..news.feeds import ChainFeed
from ..odata.feed import Feeds, ODataSettings
from ..oidc.provider import OidcSettings
from ..processes.follower import Follower
from ..projections.gateway import GATEWAY_REWRITE_BYTES, Gateway
from ..projections.publications import Publishing
from ..projections.routes import keep_up
from ..setting_groups.words import Tenancy
from ..sharing.changes import SHARING_NEW_FILES, ChangeFeeds
from ..sharing.tables import SharedTables
from ..system.backups import BackupRunner, BackupSettings
from ..system.chores import ChoreRunner, UpkeepSettings, chores_of
from ..trust.attestations import ATTESTED_REST_S, Attesting
from ..trust.log import SALTS, SALTS_BYTES, LogKeeper, TrustSettings, policy_of
from ..trust.routes import LOG_REST_S, WITNESS_PATH, HeadProofs, LogRunner
from ..trust.witness import LOOK_S, Asking, Witness, sender
from ..webhooks.delivering import Deliverer, Delivering, FailingPolls
from ..webhooks.sending import Sender
from ..webhooks.webhooks import WEBHOOK_OLD_SECRET_S, WEBHOOKS_ACCOUNT, Webhooks
from ..why.question import Provenance
from .features import FeatureParts


def runners_of_backups(node: FeatureParts) -> Iterator[BackupRunner]:
    """Yield what makes backups, if the settings say where to."""
    settings = node.part(BackupSettings)
    if settings.to is not None:
        yield BackupRunner(
            node.stores,
            settings,
            target=settings.to,
            data=node.settings.data,
            objects_url=node.settings.objects_url,
            clock=node.clock,
        )


def runners_of_upkeep(node: FeatureParts) -> Iterator[ChoreRunner]:
    """Yield what does each chore that the settings ask for."""
    holder = node.random(8).hex()
    for chore in chores_of(node.part(UpkeepSettings), node.settings.data):
        yield ChoreRunner(node.stores, chore, node.clock, holder)


def parts_of_feeds(node: FeatureParts) -> Iterator[object]:
    """Yield what the routes of feeds ask for."""
    stores = node.stores
    yield AtomFeeds(
        heads=stores.refs,
        moves=stores.refs,
        blocks=stores.blocks,
        reading=stores.reading,
        access=node.access,
        clock=node.clock,
    )


def parts_of_delta_sharing(node: FeatureParts) -> Iterator[object]:
    """Yield what the routes ask for."""
    tables = SharedTables(node.version_reads, node.access, node.signed_urls, node.learned_bounds)
    yield tables
    yield ChangeFeeds(tables, SHARING_NEW_FILES, GATEWAY_REWRITE_BYTES)


def parts_of_ducklake(node: FeatureParts) -> Iterator[object]:
    """Yield what the routes ask for."""
    settings = node.part(DuckLakeSettings)
    yield Lakes(
        access=node.access,
        reads=node.version_reads,
        taken_back=TakenBackReads(node.version_reads, settings.deleted_rows, DUCKLAKE_STEPS),
        projections=node.stores.projections,
        limits=LakeLimits(
            datasets=settings.datasets,
            files=settings.slices,
            kept=settings.kept,
        ),
        described=DescribedTables(settings.slices),
    )


def parts_of_iceberg(node: FeatureParts) -> Iterator[object]:
    """Yield what the routes ask for."""
    yield IcebergTables(
        reads=node.version_reads,
        access=node.access,
        keys=node.vended_keys,
        memory=FileMemory(FILE_MEMORY_BYTES),
        most_snapshots=MAX_SNAPSHOTS,
        most_deleted=node.settings.iceberg_deleted_rows,
    )


def addresses_of_iceberg(node: FeatureParts) -> Iterator[Route]:
    """Yield the rows of the table of addresses."""
    return TableFiles(node.part(IcebergTables), node.access).routes()


def parts_of_kartothek(node: FeatureParts) -> Iterator[object]:
    """Yield what the routes and the runner ask for."""
    settings = node.settings
    yield Publishing(node.stores, settings.publish_to, node.clock, settings.tenancy)
    yield Gateway(node.stores, node.access, GATEWAY_REWRITE_BYTES)


def runners_of_kartothek(node: FeatureParts) -> Iterator[Follower]:
    """Yield what keeps publications up to date."""
    poll_s = node.settings.poll_s

    def look() -> float:
        keep_up(node.part(Publishing))
        return poll_s

    yield Follower("publications", node.stores.wake_up, look, poll_s=poll_s)


def parts_of_trust(node: FeatureParts) -> Iterator[object]:
    """Yield what the routes and the runner ask for."""
    settings, trust = node.settings, node.part(TrustSettings)
    keeper = LogKeeper(
        stores=node.stores,
        keys=node.signing_keys,
        salts=node.stores.accounts.secret(SALTS, node.random(SALTS_BYTES)),
        public_url=settings.public_url,
        map_s=trust.heads_map_s,
        path="../log" if settings.tenancy is Tenancy.SINGLE else "../../log",
        clock=node.clock,
    )
    yield keeper
    attesting = Attesting(
        stores=node.stores,
        keys=node.signing_keys,
        sealing=node.secret_keys,
        clock=node.clock,
        node=keeper.origin,
        salts=keeper.salts,
        is_on=trust.attest,
        names_accounts=trust.name_accounts,
        most_a_block=trust.block_attestations,
        limits=node.mirrors.limits,
    )
    node.mirrors.guests.append(attesting.take_over)
    yield attesting
    yield Witness(
        store=node.stores.witnessed,
        logs=tuple(peer.key for peer in policy_of(trust.witness_for).logs),
        name=f"{keeper.origin}/{WITNESS_PATH}",
        seed=node.signing_keys.seed,
        clock=node.clock,
    )


def addresses_of_trust(node: FeatureParts) -> Iterator[Route]:
    """Yield the rows of the table of addresses."""
    return HeadProofs(node.part(LogKeeper), node.access, node.at_hand).routes()


def runners_of_trust(node: FeatureParts) -> Iterator[Follower]:
    """Yield what signs the log of heads, and what asks each of its witnesses."""
    trust = node.part(TrustSettings)
    runner = LogRunner(node.part(LogKeeper), node.settings.poll_s)
    yield Follower(
        "log",
        node.stores.wake_up,
        runner.look,
        poll_s=node.settings.poll_s,
        topic=Topic.MOVED,
        least_rest_s=LOG_REST_S,
    )
    yield Follower(
        "attestations",
        node.stores.wake_up,
        node.part(Attesting).look,
        poll_s=node.settings.poll_s,
        least_rest_s=ATTESTED_REST_S,
    )
    for name, peer in policy_of(trust.policy).witnesses:
        if peer.url:
            asking = Asking(
                node.stores.head_log,
                peer,
                heartbeat_s=trust.witness_heartbeat_s,
                clock=node.clock,
                send=sender(trust.witness_answer_s),
            )
            yield Follower(f"witness {name}", node.stores.wake_up, asking.look, poll_s=LOOK_S)


def parts_of_provenance(node: FeatureParts) -> Iterator[object]:
    """Yield what the route and the page ask for."""
    yield Provenance(node.verifying, node.access, node.pressure, node.lineage)


def parts_of_mcp(node: FeatureParts) -> Iterator[object]:
    """Yield what the route asks for."""
    tools = McpTools(
        stores=node.stores,
        access=node.access,
        inputs=node.query_inputs,
        queries=node.queries,
        keys=node.signing_keys,
        most_bytes=node.part(McpSettings).answer_bytes,
    )
    yield McpDoor(tools, node.face, MCP_BODY_BYTES)


def parts_of_oai(node: FeatureParts) -> Iterator[object]:
    """Yield what the routes ask for."""
    disclosures = Disclosures(node.stores.engine, everything=node.access.everything_is_read)
    yield Harvesting(disclosures, node.face, node.clock)


def parts_of_odata(node: FeatureParts) -> Iterator[object]:
    """Yield what the routes ask for."""
    settings = node.part(ODataSettings)
    yield Feeds(node.query_inputs, node.queries, settings.page_rows, settings.datasets)


def parts_of_oidc(node: FeatureParts) -> Iterator[object]:
    """Yield what the pages of the login by a provider ask for, if there is one."""
    settings = node.part(OidcSettings)
    if settings.issuer is not None:
        from ..oidc.people import People  # few nodes have a provider
        from ..oidc.provider import Provider

        need("authlib", "login by an identity provider (ODF_OIDC_ISSUER) takes Authlib")
        yield Provider(settings)
        yield People(settings, node.stores, node.throttle, node.clock, node.random)


def addresses_of_oidc(node: FeatureParts) -> Iterator[Route]:
    """Yield the addresses of the login by a provider, if there is one."""
    if node.part(OidcSettings).issuer is not None:
        from ..oidc.pages import desk_of, login_addresses
        from ..oidc.people import People
        from ..oidc.provider import Provider

        desk = desk_of(node.part(Provider), node.part(People), node.session_secrets)
        yield from login_addresses(node.settings, node.views, node.sessions, desk)


def logins_of_oidc(node: FeatureParts) -> Iterator[LoginWay]:
    """Yield the link to the provider, if there is one."""
    if node.part(OidcSettings).issuer is not None:
        from ..oidc.pages import login_way
        from ..oidc.provider import Provider

        yield login_way(node.part(Provider))


def parts_of_webhooks(node: FeatureParts) -> Iterator[object]:
    """Yield what the routes and the runner ask for."""
    settings = node.settings
    networks = tuple(str(network) for network in settings.webhook_networks)
    hooks = Webhooks(
        store=node.stores.webhooks,
        reading=node.stores.reading,
        keys=node.secret_keys,
        sender=Sender(networks, settings.outgoing_s),
        most=WEBHOOKS_ACCOUNT,
        old_secret_s=WEBHOOK_OLD_SECRET_S,
        public_url=settings.public_url,
        clock=node.clock,
        random=node.random,
    )
    yield hooks
    yield Delivering(
        hooks=hooks,
        feed=ChainFeed(node.stores.reading, node.access.shown_alias),
        access=node.access,
        retry_s=settings.webhook_retry_s,
        failing=FailingPolls(node.stores.jobs, 10 * settings.poll_s),
    )


def runners_of_webhooks(node: FeatureParts) -> Iterator[Follower | Deliverer]:
    """Yield what delivers, and what looks for deliveries that are due."""
    settings, wake_up = node.settings, node.stores.wake_up
    deliverer = Deliverer(
        node.part(Delivering),
        threads=settings.webhook_threads,
        poll_s=settings.poll_s,
        is_shared=settings.tenancy is Tenancy.MULTI,
    )
    yield Follower("webhooks", wake_up, deliverer.look, poll_s=settings.poll_s, topic=Topic.MOVED)
    yield deliverer
