"""Who is let in: anonymous callers, logins, sessions, passwords."""

from __future__ import annotations

from pydantic import Field

from odf_storage.runtime.shared_settings import SharedSettings

from .words import AnonymousReads


class CallerSettings(SharedSettings):
    """Who is let in: anonymous callers, logins, sessions, passwords."""

    allow_anonymous: bool = Field(
        True, description="Whether callers without a token may read public datasets."
    )
    anonymous_reads: AnonymousReads = Field(
        AnonymousReads.PUBLIC,
        description="Which datasets everybody reads who is let in: `public` ones, or `all`, "
        "private ones, too (for a private workshop).",
    )
    share: float = Field(
        0.34,
        gt=0,
        le=1,
        description="Part, rounded up, that one account, or one address without an account, may "
        "hold of what all callers have at a time: queries, readers, bodies, transfers, listeners, "
        "calls of Flight SQL. More wait a moment, or are answered 429. A start is refused where "
        "the part of a pool would be all of it, except with 1.",
    )
    session_ttl_s: int = Field(
        86_400, gt=0, description="Seconds a session stays valid after its login."
    )
    password_work: int = Field(
        15,
        ge=1,
        le=20,
        description="Cost of guessing a new password: 2 to this power KiB of scrypt, three times.",
    )
    login_attempts: int = Field(
        5, gt=0, description="Failed logins one address may make per account before it has to wait."
    )
