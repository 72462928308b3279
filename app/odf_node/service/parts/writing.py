"""Parts that fill datasets: posts, uploads, pushes, mirrors, derivatives.

Parts that report news of datasets: moves of heads, streams.
"""

from __future__ import annotations

from functools import cached_property

from odf_protocol.transfer.bundle import BundleLimits
from odf_storage.datasets.contents.slice_limits import MAX_SLICE_RATIO, SLICE_CHECK_S, GateLimits
from odf_storage.datasets.gate.gate import SliceGate

from ..derivatives.follow import FOLLOW_DEBOUNCE_S, Computing, FollowingInputs
from ..derivatives.routes import Refreshing
from ..ingest.posts import REQUEST_KEY_TTL_S, Destinations, Posts, Uploads
from ..limits.shares import OUTGOING, Outgoing, Slots
from ..mirrors.mirrors import MAX_BATCH_BLOCKS, Mirrors, limits_of
from ..news.feeds import ChainFeed, LogFeed, SealedPositions
from ..news.head_watch import EVENTS_MAX_WAIT_S, HeadPolls, HeadWatch
from ..news.streams import (
    EVENTS_KEEP_ALIVE_S,
    EVENTS_MAX_ROW_BYTES,
    EVENTS_MAX_ROWS,
    Rights,
    RowTexts,
    Streams,
)
from ..objects.begun_uploads import MAX_BEGUN_UPLOADS, MAX_BEGUN_UPLOADS_ACCOUNT, BegunUploads
from ..objects.objects import AtHand
from ..pages.datasets.files import PUBLISH_LOOK_BYTES, FilePublishing
from ..transfer.admission import VALIDATION_WAIT_S, Admission, Receiving
from ..transfer.handshake import Handshake
from ..transfer.push import Pushing
from ..uploads.uploaded_files import MAX_UPLOADS, UPLOAD_KEEP_S, FileUploads
from .jobs import DefinitionParts


class WriteParts(DefinitionParts):
    """Parts that fill datasets: posts, uploads, pushes, mirrors, derivatives."""

    @cached_property
    def posts(self) -> Posts:
        return Posts(
            stores=self.stores,
            destinations=Destinations(self.access),
            pressure=self.pressure,
            uploads=Uploads(self.stores.objects),
            data=self.settings.data,
            key_ttl_s=REQUEST_KEY_TTL_S,
            clock=self.clock,
        )

    @cached_property
    def file_uploads(self) -> FileUploads:
        return FileUploads(
            stores=self.stores,
            data=self.settings.data,
            max_bytes=self.settings.max_upload_bytes,
            max_per_account=MAX_UPLOADS,
            keep_s=UPLOAD_KEEP_S,
            clock=self.clock,
            random=self.random,
        )

    @cached_property
    def file_publishing(self) -> FilePublishing:
        return FilePublishing(
            authoring=self.authoring,
            posts=self.posts,
            uploads=self.file_uploads,
            waiting=self.waiting,
            readers=self.readers,
            look_bytes=PUBLISH_LOOK_BYTES,
        )

    @cached_property
    def begun_uploads(self) -> BegunUploads:
        return BegunUploads(
            objects=self.stores.objects,
            of_dataset=MAX_BEGUN_UPLOADS,
            of_account=MAX_BEGUN_UPLOADS_ACCOUNT,
            bytes_of_account=self.settings.max_begun_bytes_account,
        )

    @cached_property
    def at_hand(self) -> AtHand:
        return AtHand(self.stores, self.access)

    @cached_property
    def following(self) -> FollowingInputs:
        return FollowingInputs(
            stores=self.stores,
            everything_is_read=self.access.everything_is_read,
            debounce_s=FOLLOW_DEBOUNCE_S,
            poll_s=self.settings.poll_s,
            clock=self.clock,
        )

    @cached_property
    def gate(self) -> SliceGate:
        return SliceGate(
            GateLimits(
                memory=self.settings.slice_memory_bytes,
                seconds=SLICE_CHECK_S,
                ratio=MAX_SLICE_RATIO,
                hashed_at_once=self.settings.rows_hashed_at_once_bytes,
            )
        )

    @cached_property
    def receiving(self) -> Receiving:
        return Receiving(self.stores, self.gate, self.clock)

    @cached_property
    def pushing(self) -> Pushing:
        return Pushing(
            stores=self.stores,
            defining=self.defining,
            receiving=self.receiving,
            admission=Admission(
                validates=self.settings.validate_pushed_derivatives,
                jobs=self.stores.jobs,
                objects=self.stores.objects,
                gate=self.gate,
                wait_s=VALIDATION_WAIT_S,
                poll_s=self.settings.poll_s,
            ),
            limits=BundleLimits(
                max_blocks=MAX_BATCH_BLOCKS,
                max_inflated=self.settings.max_batch_bytes,
            ),
            clock=self.clock,
        )

    @cached_property
    def handshake(self) -> Handshake:
        return Handshake(
            stores=self.stores,
            access=self.access,
            callers=self.callers,
            pushing=self.pushing,
            public_url=self.settings.public_url,
            port=self.settings.port,
            url_ttl_s=self.settings.transfer_url_ttl_s,
            max_object_bytes=self.settings.max_object_bytes,
        )

    @cached_property
    def mirrors(self) -> Mirrors:
        return Mirrors(
            stores=self.stores,
            receiving=self.receiving,
            keys=self.secret_keys,
            limits=limits_of(self.settings),
            clock=self.clock,
        )

    @cached_property
    def refreshing(self) -> Refreshing:
        return Refreshing(self.stores.jobs, self.mirrors, Computing(self.stores, self.access))


class NewsParts(WriteParts):
    """Parts that report news of datasets: moves of heads, streams."""

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
