"""Signatures of S3 requests: the known answer of AWS, and headers that mean nothing."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusing

from odf_protocol.s3.signature import (
    ALGORITHM,
    BODY_HEADER,
    DATE_HEADER,
    MUST_BE_SIGNED,
    S3Request,
    SignatureClaim,
    signature,
    time_of,
)

NOTHING = hashlib.sha256(b"").hexdigest()


def request(**headers: str) -> S3Request:
    told = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    return S3Request("GET", "/test.txt", "", told)


def test_a_request_has_the_signature_of_the_documentation():
    """Source: Amazon S3 API reference, "Examples: Signature calculations", GET Object."""
    asked = request(
        host="examplebucket.s3.amazonaws.com",
        range="bytes=0-9",
        x_amz_content_sha256=NOTHING,
        x_amz_date="20130524T000000Z",
    )
    claim = SignatureClaim(
        "20130524", "us-east-1", ("host", "range", "x-amz-content-sha256", "x-amz-date"), ""
    )
    made = signature(asked, claim, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    assert made == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    assert time_of(asked) == 1_369_353_600


def test_a_request_of_a_list_has_the_signature_of_the_documentation():
    """The same, GET Bucket (List Objects)."""
    headers = [
        (b"host", b"examplebucket.s3.amazonaws.com"),
        (BODY_HEADER.encode(), NOTHING.encode()),
        (DATE_HEADER.encode(), b"20130524T000000Z"),
    ]
    asked = S3Request("GET", "/", "prefix=J&max-keys=2", headers)
    claim = SignatureClaim("20130524", "us-east-1", ("host", BODY_HEADER, DATE_HEADER), "")
    made = signature(asked, claim, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    assert made == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"


RIGHT = (
    f"{ALGORITHM} Credential=k/20260101/eu/s3/aws4_request, "
    f"SignedHeaders={';'.join(sorted(MUST_BE_SIGNED))}, Signature={'0' * 64}"
)


def test_what_is_said_of_a_signature_is_read():
    assert SignatureClaim.of(request(authorization=RIGHT)).day == "20260101"


@pytest.mark.parametrize(
    "change",
    [
        ("/s3/", "/sqs/"),
        ("host;", ""),
        ("0" * 64, "0" * 63),
        ("0" * 64, "G" * 64),
        ("20260101", "2026"),
        (", Sig", ",, Sig"),
        ("Credential=k", "Credential=" + "k" * 200),
        ("host;", "host;" * 2_000),
    ],
)
def test_what_is_said_in_another_form_is_refused(change):
    with refusing("MalformedS3Signature"):
        SignatureClaim.of(request(authorization=RIGHT.replace(*change)))


@given(st.text(max_size=60))
def test_no_text_is_more_than_malformed(text):
    try:
        asked = request(authorization=ALGORITHM + text, x_amz_date=text)
    except UnicodeEncodeError:
        return
    with refusing("MalformedS3Signature"):
        SignatureClaim.of(asked)
    with refusing("MalformedS3Signature"):
        time_of(asked)


def test_a_day_that_is_none_is_no_time():
    with refusing("MalformedS3Signature"):
        time_of(request(x_amz_date="20261399T000000Z"))
