"""Parts that fill datasets: posts, uploads, pushes, mirrors, derivatives, publications."""

from __future__ import annotations

from functools import cached_property

from odf_protocol.transfer.bundle import BundleLimits
from odf_storage.datasets.contents.slice_limits import GateLimits
from odf_storage.datasets.gate.gate import SliceGate

from ..derivatives.follow import Following
from ..derivatives.refresh import Refreshing
from ..derivatives.refresh_derivative import Computing
from ..ingest.destinations import Destinations
from ..ingest.posts import Posts
from ..ingest.uploads import Uploads
from ..mirrors.mirrors import Mirrors, limits_of
from ..objects.begun_uploads import BegunUploads
from ..pages.publishing import FilePublishing
from ..projections.publications import Publishing
from ..transfer.admission import Admission
from ..transfer.handshake import Handshake
from ..transfer.push import Pushing
from ..transfer.received import Receiving
from ..uploads.uploaded_files import FileUploads
from .definitions import DefinitionParts


class WriteParts(DefinitionParts):
    """Parts that fill datasets: posts, uploads, pushes, mirrors, derivatives, publications."""

    @cached_property
    def posts(self) -> Posts:
        return Posts(
            stores=self.stores,
            destinations=Destinations(self.access),
            pressure=self.pressure,
            uploads=Uploads(self.stores.objects),
            data=self.settings.data,
            key_ttl_s=self.settings.request_key_ttl_s,
            clock=self.clock,
        )

    @cached_property
    def file_uploads(self) -> FileUploads:
        return FileUploads(
            stores=self.stores,
            data=self.settings.data,
            max_bytes=self.settings.max_upload_bytes,
            max_per_account=self.settings.max_uploads,
            keep_s=self.settings.upload_keep_s,
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
            look_bytes=self.settings.publish_look_bytes,
        )

    @cached_property
    def begun_uploads(self) -> BegunUploads:
        return BegunUploads(
            objects=self.stores.objects,
            of_dataset=self.settings.max_begun_uploads,
            of_account=self.settings.max_begun_uploads_account,
            bytes_of_account=self.settings.max_begun_bytes_account,
        )

    @cached_property
    def following(self) -> Following:
        return Following(
            stores=self.stores,
            everything_is_read=self.access.everything_is_read,
            debounce_s=self.settings.follow_debounce_s,
            poll_s=self.settings.follow_poll_s,
            clock=self.clock,
        )

    @cached_property
    def gate(self) -> SliceGate:
        return SliceGate(
            GateLimits(
                memory=self.settings.slice_memory_bytes,
                seconds=self.settings.slice_check_s,
                ratio=self.settings.max_slice_ratio,
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
                wait_s=self.settings.validation_wait_s,
                poll_s=self.settings.ingest_poll_s,
            ),
            limits=BundleLimits(
                max_blocks=self.settings.max_batch_blocks,
                max_inflated=self.settings.max_batch_bytes,
            ),
            clock=self.clock,
        )

    @cached_property
    def handshake(self) -> Handshake:
        return Handshake(
            stores=self.stores,
            access=self.access,
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

    @cached_property
    def publishing(self) -> Publishing:
        settings = self.settings
        return Publishing(self.stores, settings.publish_to, self.clock, settings.tenancy)
