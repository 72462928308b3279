"""Signatures of requests to object stores: parses and computes them. No input or output.

Source: AWS Signature Version 4, "Create a signed AWS API request", with the rules of S3: the path
is encoded once, and the digest of the body is in a header.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ..errors import BadInput

ALGORITHM = "AWS4-HMAC-SHA256"
TOKEN_HEADER, DATE_HEADER, BODY_HEADER = (
    "x-amz-security-token",
    "x-amz-date",
    "x-amz-content-sha256",
)
MUST_BE_SIGNED = frozenset({"host", TOKEN_HEADER, DATE_HEADER, BODY_HEADER})
"""Headers without whose signature a request is refused."""
MAX_CHARS = 4096
_HEADER = re.compile(
    ALGORITHM
    + r" Credential=([\w.-]{1,128})/(\d{8})/([\w-]{1,64})/s3/aws4_request,"
    + r" ?SignedHeaders=([a-z0-9;-]{1,1024}), ?Signature=([0-9a-f]{64})",
    re.ASCII,
)
_TIME = re.compile(r"\d{8}T\d{6}Z", re.ASCII)


def malformed_s3_signature(what: str) -> BadInput:
    """The request has no signature of the known form."""
    return BadInput("MalformedS3Signature", f"the signature of the request cannot be read: {what}")


@dataclass(frozen=True, slots=True)
class S3Request:
    """A request as it was received; header names are in lower case."""

    method: str
    path: str
    """Path as it was sent, percent-encoded."""
    query: str
    headers: Sequence[tuple[bytes, bytes]]

    def header(self, name: str) -> str:
        """Return a header; empty if absent, joined by commas if repeated."""
        raw = name.encode()
        found = [value.decode("latin-1") for key, value in self.headers if key == raw]
        return ",".join(" ".join(value.split()) for value in found)


@dataclass(frozen=True, slots=True)
class SignatureClaim:
    """The facts about the signature in the header of a request."""

    day: str
    region: str
    signed: tuple[str, ...]
    """Names of the signed headers."""
    signature: str

    @classmethod
    def of(cls, request: S3Request) -> SignatureClaim:
        """Parse the header of a request. Raises `MalformedS3Signature`."""
        text = request.header("authorization")
        match = _HEADER.fullmatch(text) if len(text) <= MAX_CHARS else None
        if match is None:
            raise malformed_s3_signature(f"Authorization is no header of {ALGORITHM} for s3")
        signed = tuple(match[4].split(";"))
        lacking = sorted(MUST_BE_SIGNED - set(signed))
        if lacking:
            raise malformed_s3_signature(f"the headers {', '.join(lacking)} are not signed")
        return cls(match[2], match[3], signed, match[5])


def time_of(request: S3Request) -> int:
    """Return the client's time of signing, in seconds since 1970. `MalformedS3Signature`."""
    text = request.header(DATE_HEADER)
    try:
        if _TIME.fullmatch(text) is None:
            raise ValueError
        return int(datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise malformed_s3_signature(f"{DATE_HEADER} is no time like 20260131T235959Z") from None


def signature(request: S3Request, claim: SignatureClaim, secret: str) -> str:
    """Return the signature that the secret gives for the request."""
    scope = f"{claim.day}/{claim.region}/s3/aws4_request"
    canonical = _digest(_canonical(request, claim.signed))
    said = "\n".join((ALGORITHM, request.header(DATE_HEADER), scope, canonical))
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), hashlib.sha256)
    return hmac.digest(key, said.encode(), hashlib.sha256).hex()


def _canonical(request: S3Request, signed: Sequence[str]) -> str:
    return "\n".join(
        (
            request.method,
            request.path,
            _sorted(request.query),
            *(f"{name}:{request.header(name)}" for name in signed),
            "",
            ";".join(signed),
            request.header(BODY_HEADER),
        )
    )


def _sorted(query: str) -> str:
    pairs = [each.partition("=") for each in query.split("&") if each]
    return "&".join(f"{name}={value}" for name, _, value in sorted(pairs))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
