"""One bucket behind boto3, with limits on the time and tries of calls, and translated errors.

No other module knows boto3 and the meaning of its errors; calls that are made by the thousand try
`s3_obstore.py` first. An object counts as absent only if the server says so. Any other failure is
`StoreUnavailable` (try again later) or `StoreMisconfigured` (an administrator has to change
something).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, BinaryIO, NoReturn
from urllib.parse import urlsplit

import boto3
import botocore.session
from boto3.s3.transfer import TransferConfig
from botocore import exceptions as aws
from botocore.config import Config
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from odf_protocol.errors import BadInput, Conflict, NodeError, NodeFault, NotFound, Unavailable

from .layout import StorageFull
from .s3_obstore import BrokeOff, FoundObject, Obstore

Answer = dict[str, Any]

DEFAULT_REGION = "us-east-1"
SCHEMES = ("s3", "s3+http", "s3+https")
DELETE_BATCH = 1000
"""Limit of keys that the server accepts in one request."""
SENT_PART_BYTES = 16 << 20
"""Size in bytes of the parts in which a large file is sent. The client takes larger ones if there
would be more than a server accepts."""
_SENDING = TransferConfig(
    multipart_threshold=SENT_PART_BYTES,
    multipart_chunksize=SENT_PART_BYTES,
    max_concurrency=4,
    preferred_transfer_client="classic",  # the other one ignores the limits of `Bucket`
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*")


class StoreUnavailable(Unavailable):
    """The object store is unreachable, keeps failing, or broke off; the outcome is unknown."""

    def __init__(self, operation: str, reason: str) -> None:
        super().__init__(
            f"the object store is not available ({operation}: {reason}); try again later",
            operation=operation,
            reason=reason,
        )


class StoreMisconfigured(NodeFault):
    """The object store refuses the node's requests: credentials, rights, bucket or region."""

    def __init__(self, operation: str, reason: str) -> None:
        super().__init__(
            f"the object store refuses the node ({operation}: {reason}); "
            "check bucket, credentials and rights",
            operation=operation,
            reason=reason,
        )


class KeyMissing(NotFound):
    """The server reports that there is no object under this key."""


class KeyUnsure(KeyMissing):
    """A 404 that may not be from an object store: responses to HEAD have no body to verify it."""


class PastTheEnd(BadInput):
    """The requested range begins after the last byte."""


class PreconditionLost(Conflict):
    """The condition of the request is not true."""


class UploadGone(NotFound):
    """The multipart upload was completed or aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Limits:
    """Limits of every call. `tries` is the total, including the first try and the obstore try."""

    connect_s: float = 5.0
    read_s: float = 30.0
    tries: int = 5
    connections: int = 64


@dataclass(frozen=True, slots=True)
class S3Location:
    """The parts of an objects URL. `prefix` is empty or ends with a slash."""

    bucket: str
    prefix: str
    endpoint: str | None = None

    @classmethod
    def parse(cls, url: str) -> S3Location:
        """Parse `s3://bucket[/prefix]`, or with a server `s3+http://host[:port]/bucket[/prefix]`.

        The URL never contains credentials. Raises `MalformedStoreUrl`.
        """
        scheme, _, rest = url.partition("://")
        parts = urlsplit(f"//{rest}")
        if scheme not in SCHEMES or "@" in rest or parts.query or parts.fragment:
            raise _malformed()
        if not parts.netloc:
            raise _malformed()
        host, path = parts.netloc, parts.path.strip("/")
        if scheme == "s3":
            host, path = "", f"{host}/{path}".strip("/")
        bucket, _, prefix = path.partition("/")
        fits = _BUCKET.fullmatch(bucket) and (not prefix or _PREFIX.fullmatch(prefix))
        if not fits or {".", ".."} & set(prefix.split("/")):
            raise _malformed()
        endpoint = f"{scheme.removeprefix('s3+')}://{host}" if host else None
        return cls(bucket, f"{prefix}/" if prefix else "", endpoint)


def _malformed() -> BadInput:
    return BadInput(
        "MalformedStoreUrl",
        "objects in S3 are at s3://bucket/prefix or s3+http://host:port/bucket/prefix, "
        "with plain names and without credentials (those come from the environment)",
    )


class Bucket:
    """The keys of a bucket below a prefix. Safe to use from several threads."""

    def __init__(
        self,
        location: S3Location,
        *,
        limits: S3Limits | None = None,
        public_endpoint: str | None = None,
    ) -> None:
        """`public_endpoint` is the address at which clients reach the server, if it differs."""
        self.location = location
        self.limits = limits or S3Limits()
        session = botocore.session.get_session()  # shared, because creating one is slow
        boto = boto3.session.Session(botocore_session=session)
        self.client = _connect(boto, location, self.limits)
        self.obstore = _obstore(session, self.client, location, self.limits)
        self._signer = self.client
        if public_endpoint is not None:  # the signature covers the host
            elsewhere = replace(location, endpoint=public_endpoint)
            self._signer = _connect(boto, elsewhere, self.limits)

    def check(self) -> None:
        """Fail early unless the bucket exists and may be used."""
        try:
            self.call("head_bucket")
        except KeyMissing:
            reason = f"there is no bucket {self.location.bucket!r}"
            raise StoreMisconfigured("head_bucket", reason) from None

    def call(self, operation: str, name: str | None = None, **arguments: Any) -> Answer:
        """Make one call of boto3, for the key `name` if it is given, with retries in the limits.

        Raises:
            KeyMissing, PastTheEnd, PreconditionLost, UploadGone: the response of the server.
            StoreUnavailable, StoreMisconfigured: there was no response, or the node is refused.
        """
        if name is not None:
            arguments["Key"] = self.location.prefix + name
        try:
            answer: Answer = getattr(self.client, operation)(
                Bucket=self.location.bucket, **arguments
            )
        except FAILURES as error:
            translate(operation, error)
        return answer

    def size(self, name: str) -> int:
        """Return the size in bytes of the object. Raises `KeyMissing`, and as `call`."""
        return self.stat(name).size

    def stat(self, name: str) -> FoundObject:
        """Return facts about the object under the key. Raises the same errors as `size`."""
        if self.obstore is not None and (found := self.obstore.stat(name)) is not None:
            return found
        try:
            answer = self.call("head_object", name)
            size = int(answer["ContentLength"])
            return FoundObject(name, size, answer["ETag"], answer["LastModified"])
        except KeyUnsure:
            self.call("get_object", name)["Body"].close()  # has a body that identifies the server
            raise StoreUnavailable("head_object", "two answers that do not agree") from None

    def create(self, name: str, content: bytes) -> None:
        """Write an object in one request. Raises `PreconditionLost` if the key is taken."""
        created = None if self.obstore is None else self.obstore.create(name, content)
        if created is None:
            self.call("put_object", name, Body=content, IfNoneMatch="*")
        elif not created:
            raise PreconditionLost("there is something under this key")

    def send(self, name: str, content: BinaryIO) -> None:
        """Write an object from a file of any size, a large one in parts. Raises as `call`."""
        key = self.location.prefix + name
        try:
            self.client.upload_fileobj(content, self.location.bucket, key, Config=_SENDING)
        except FAILURES as error:
            translate("upload_fileobj", error)

    def source(self, name: str) -> dict[str, str]:
        """Return the key in the form that a copy needs as its source."""
        return {"Bucket": self.location.bucket, "Key": self.location.prefix + name}

    def walk_folder(self, folder: str) -> Iterator[FoundObject]:
        """As `walk` with `folder/`, but empty parts of key names may be missing in the result."""
        last = None
        if self.obstore is not None:
            with suppress(BrokeOff):
                for found in self.obstore.walk(folder):
                    last = found.name
                    yield found
                return
        yield from self.walk(f"{folder}/", after=last)

    def walk(self, start: str, *, after: str | None = None) -> Iterator[FoundObject]:
        """Yield every key that begins with `start`, in order, only those after `after`."""
        more: Answer = {} if after is None else {"StartAfter": self.location.prefix + after}
        while True:
            page = self.call("list_objects_v2", Prefix=self.location.prefix + start, **more)
            for item in page.get("Contents", ()):
                name = str(item["Key"]).removeprefix(self.location.prefix)
                yield FoundObject(name, int(item["Size"]), item["ETag"], item["LastModified"])
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def folders(self, start: str) -> Iterator[str]:
        """Yield names between `start`, which is empty or ends with a slash, and the next slash."""
        more: Answer = {}
        prefix = self.location.prefix + start
        while True:
            page = self.call("list_objects_v2", Prefix=prefix, Delimiter="/", **more)
            for item in page.get("CommonPrefixes", ()):
                yield str(item["Prefix"]).removeprefix(prefix).removesuffix("/")
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def delete_below(self, start: str) -> None:
        """Delete every key that begins with `start`."""
        while batch := _first(self.walk(start), DELETE_BATCH):
            self.delete([found.name for found in batch])

    def delete(self, names: list[str]) -> None:
        """Delete at most `DELETE_BATCH` keys; absent ones are no error."""
        keys = [{"Key": self.location.prefix + name} for name in names]
        answer = self.call("delete_objects", Delete={"Objects": keys, "Quiet": True})
        for failed in answer.get("Errors", ()):
            raise StoreUnavailable("delete_objects", str(failed.get("Code")))

    def presign(self, operation: str, name: str, ttl: timedelta, **arguments: Any) -> str:
        """Return a URL for one call on one key; the signature covers all arguments."""
        arguments |= {"Bucket": self.location.bucket, "Key": self.location.prefix + name}
        try:
            url: str = self._signer.generate_presigned_url(
                operation, Params=arguments, ExpiresIn=int(ttl.total_seconds())
            )
        except FAILURES as error:
            translate(operation, error)
        return url


def _connect(boto: Any, location: S3Location, limits: S3Limits) -> Any:
    """Create a client; boto3 finds credentials and region in its usual sources."""
    style = "auto" if location.endpoint is None else "path"
    config = Config(
        signature_version="s3v4",
        connect_timeout=limits.connect_s,
        read_timeout=limits.read_s,
        retries={"mode": "standard", "total_max_attempts": max(1, limits.tries - 1)},
        max_pool_connections=limits.connections,
        s3={"addressing_style": style},
        tcp_keepalive=True,
    )
    try:
        return boto.client(
            "s3",
            endpoint_url=location.endpoint,
            region_name=boto.region_name or DEFAULT_REGION,
            config=config,
        )
    except FAILURES as error:
        translate("connect", error)


def _obstore(session: Any, client: Any, location: S3Location, limits: S3Limits) -> Obstore | None:
    """Create the fast client for the same server and user; None if `tries` leaves none for it."""
    try:
        credentials = session.get_credentials()
        if credentials is None or limits.tries < 2:
            return None
        return Obstore(
            location.bucket,
            location.prefix,
            endpoint=client.meta.endpoint_url,
            region=client.meta.region_name,
            credentials=credentials,
            connect_s=limits.connect_s,
            read_s=limits.read_s,
            ca_bundle=session.get_config_variable("ca_bundle"),
        )
    except FAILURES as error:
        translate("connect", error)


def _first(found: Iterator[FoundObject], count: int) -> list[FoundObject]:
    return [item for _, item in zip(range(count), found, strict=False)]


# --- what went wrong ------------------------------------------------------------------------

FAILURES: tuple[type[Exception], ...] = (
    aws.ClientError,
    aws.BotoCoreError,
    ResponseParserError,
    HTTPError,
    OSError,
)
"""Every exception of boto3 that means a failure of the server or the network."""

ANSWERS: Mapping[str, Callable[[str], NodeError]] = {
    "NoSuchKey": KeyMissing,
    "NotFound": KeyMissing,
    "404": KeyMissing,
    "InvalidRange": PastTheEnd,
    "416": PastTheEnd,
    "PreconditionFailed": PreconditionLost,
    "412": PreconditionLost,
    "NoSuchUpload": UploadGone,
}
"""Error codes of ordinary responses. HEAD responses have no body; their status is the code."""

FULL_CODES = frozenset({"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull"})
"""Error codes of self-hosted servers that are full; AWS has none."""
PASSING_STATUS = frozenset({0, 408, 409, 425, 429})
"""Statuses below 500 after which the same request may succeed later."""
LASTING_FAILURES = (
    aws.NoCredentialsError,
    aws.PartialCredentialsError,
    aws.CredentialRetrievalError,
    aws.ProfileNotFound,
    aws.InvalidConfigError,
    aws.SSLError,
)
BODILESS = frozenset({"head_object", "head_bucket"})


def translate(operation: str, error: Exception) -> NoReturn:
    """Raise the node's error for an exception of boto3."""
    if isinstance(error, aws.ParamValidationError):
        raise error  # a bug of the node, not a failure of the store
    if isinstance(error, aws.ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        about = error.response.get("ResponseMetadata", {})
        status = int(about.get("HTTPStatusCode", 0))
        if operation in BODILESS and status == 404 and not about.get("RequestId"):
            raise KeyUnsure("there may be nothing under this key") from error
        raise _sorted_out(operation, code, status) from error
    if isinstance(error, LASTING_FAILURES):
        raise StoreMisconfigured(operation, type(error).__name__) from error
    raise StoreUnavailable(operation, type(error).__name__) from error


def _sorted_out(operation: str, code: str, status: int) -> NodeError:
    if status == 404 and operation not in BODILESS and not code.isalpha():
        return StoreUnavailable(operation, "a 404 that is none of an object store")
    if code in ANSWERS:
        return ANSWERS[code](f"the object store answered {code}")
    if status == 507 or code in FULL_CODES:
        return StorageFull("the object store")
    if status in PASSING_STATUS or status >= 500:
        return StoreUnavailable(operation, code or str(status))
    return StoreMisconfigured(operation, code or str(status))
