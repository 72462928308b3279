"""Parts that report news of datasets: streams, feeds, webhooks."""

from __future__ import annotations

from functools import cached_property

from ..limits.shares import OUTGOING, Outgoing, Slots
from ..news.atom_feeds import AtomFeeds
from ..news.feeds import ChainFeed, LogFeed
from ..news.head_polls import EVENTS_MAX_WAIT_S, HeadPolls
from ..news.head_watch import HeadWatch
from ..news.positions import SealedPositions
from ..news.rights import Rights
from ..news.row_texts import EVENTS_MAX_ROW_BYTES, EVENTS_MAX_ROWS, RowTexts
from ..news.streams import EVENTS_KEEP_ALIVE_S, Streams
from ..webhooks.delivering import Delivering
from ..webhooks.failing_polls import FailingPolls
from ..webhooks.sending import Sender
from ..webhooks.webhooks import WEBHOOK_OLD_SECRET_S, WEBHOOKS_ACCOUNT, Webhooks
from .writing import WriteParts


class NewsParts(WriteParts):
    """Parts that report news of datasets: streams, feeds, webhooks."""

    @cached_property
    def head_watch(self) -> HeadWatch:
        refs, wake_up = self.stores.refs, self.stores.wake_up
        return HeadWatch(refs, wake_up, pause_s=self.settings.poll_s)

    @cached_property
    def listeners(self) -> Slots:
        return Slots(
            "listeners",
            most=self.settings.events_listeners,
            each=self.settings.share_of(self.settings.events_listeners),
            setting="ODF_NODE_EVENTS_LISTENERS",
        )

    @cached_property
    def outgoing(self) -> Outgoing:
        return Outgoing(most=OUTGOING, each=self.settings.share_of(OUTGOING))

    @cached_property
    def atom_feeds(self) -> AtomFeeds:
        stores = self.stores
        return AtomFeeds(
            heads=stores.refs,
            moves=stores.refs,
            blocks=stores.blocks,
            reading=stores.reading,
            access=self.access,
            clock=self.clock,
        )

    @cached_property
    def head_polls(self) -> HeadPolls:
        return HeadPolls(self.head_watch, self.listeners, EVENTS_MAX_WAIT_S)

    @cached_property
    def streams(self) -> Streams:
        settings, shown = self.settings, self.access.shown_alias
        positions = SealedPositions(self.secret_keys, self.random)
        return Streams(
            watch=self.head_watch,
            chain_feed=ChainFeed(self.stores.reading, shown),
            log_feed=LogFeed(self.stores.refs, self.stores.reading, shown, positions.of_event),
            positions=positions,
            rights=Rights(self.callers, self.access, settings.allow_anonymous),
            row_texts=RowTexts(
                self.stores,
                self.readers,
                max_rows=EVENTS_MAX_ROWS,
                max_bytes=EVENTS_MAX_ROW_BYTES,
            ),
            slots=self.listeners,
            keep_alive_s=EVENTS_KEEP_ALIVE_S,
            idle_s=settings.client_idle_s,
        )

    @cached_property
    def webhooks(self) -> Webhooks:
        settings = self.settings
        networks = tuple(str(network) for network in settings.webhook_networks)
        return Webhooks(
            store=self.stores.webhooks,
            reading=self.stores.reading,
            keys=self.secret_keys,
            sender=Sender(networks, settings.outgoing_s),
            most=WEBHOOKS_ACCOUNT,
            old_secret_s=WEBHOOK_OLD_SECRET_S,
            public_url=settings.public_url,
            clock=self.clock,
            random=self.random,
        )

    @cached_property
    def delivering(self) -> Delivering:
        return Delivering(
            hooks=self.webhooks,
            feed=ChainFeed(self.stores.reading, self.access.shown_alias),
            access=self.access,
            retry_s=self.settings.webhook_retry_s,
            failing=FailingPolls(self.stores.jobs, 10 * self.settings.poll_s),
        )
