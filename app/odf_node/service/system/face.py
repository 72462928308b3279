"""The face of a node: the name, sentence, contact, colours and logo that it shows to people.

Pages, catalogues and doors take them from here, so that all of them say the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator

from odf_protocol.errors import BadInput
from odf_storage.runtime.environment import BaseSettings

MAX_LOGO_BYTES = 64 * 1024
"""Every visitor fetches the logo."""
MIN_CONTRAST = 4.5
"""Contrast of text that everybody can read. Source: WCAG 2.2, 1.4.3."""
LIGHT, DARK = "#ffffff", "#1c1b22"
"""Backgrounds of pages, of the browser that has the lightest dark one."""
_LOGO = ".logo { height: 1.5rem; max-width: 8rem; vertical-align: middle }"
_HEX = r"^#[0-9a-fA-F]{6}$"
_SVG = re.compile(rb"\s*(?:<\?xml|<!--|<svg)")
_KINDS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


class FaceSettings(BaseSettings):
    """Read from `ODF_FACE_…`."""

    PREFIX: ClassVar[str] = "ODF_FACE_"

    name: str = Field(
        "ODF Node",
        min_length=1,
        max_length=60,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="What the node is called, on pages and in catalogues.",
    )
    about: str | None = Field(
        None,
        max_length=300,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="What the node is for, in one sentence.",
    )
    contact: str | None = Field(
        None,
        max_length=200,
        pattern=r"^[^\s@]+@[^\s@]+$",
        description="Address for mail; none: harvesters are told postmaster at the host.",
    )
    imprint: str | None = Field(
        None,
        max_length=500,
        pattern=r"^https?://[^\s]+$",
        description="Address of the page that says who runs the node.",
    )
    logo: Path | None = Field(
        None, description="File of the logo and icon: SVG, PNG or JPEG, at most 64 KiB."
    )
    color: str = Field("#2563a8", pattern=_HEX, description="Color of links on a light background.")
    dark_color: str = Field(
        "#7db3ec", pattern=_HEX, description="Color of links on a dark background."
    )

    @field_validator("color")
    @classmethod
    def _on_light(cls, color: str) -> str:
        return _readable(color, LIGHT)

    @field_validator("dark_color")
    @classmethod
    def _on_dark(cls, color: str) -> str:
        return _readable(color, DARK)


@dataclass(frozen=True)
class Face:
    """What the node shows to people."""

    name: str
    about: str | None = None
    contact: str | None = None
    imprint: str | None = None
    logo: bytes | None = None
    logo_type: str = "image/svg+xml"
    """Media type of the logo."""
    style: bytes = b""
    """Rules of CSS that follow those of the pages."""


def open_face(settings: FaceSettings) -> Face:
    """Return the face that the settings describe.

    Raises:
        InvalidSetting: the logo cannot be read, is too long, or is no picture of these kinds.
    """
    logo, kind = _opened(settings.logo) if settings.logo is not None else (None, Face.logo_type)
    return Face(
        name=settings.name,
        about=settings.about,
        contact=settings.contact,
        imprint=settings.imprint,
        logo=logo,
        logo_type=kind,
        style=_style(settings),
    )


def _opened(path: Path) -> tuple[bytes, str]:
    """Return the bytes of a picture and their media type."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_LOGO_BYTES + 1)
    except OSError as error:
        raise _bad_logo(f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_LOGO_BYTES:
        raise _bad_logo(f"has more than {MAX_LOGO_BYTES} bytes")
    for magic, kind in _KINDS.items():
        if content.startswith(magic):
            return content, kind
    if _SVG.match(content):
        return content, Face.logo_type
    raise _bad_logo("is neither SVG nor PNG nor JPEG")


def _bad_logo(why: str) -> BadInput:
    return BadInput("InvalidSetting", f"setting logo (ODF_FACE_LOGO): the file {why}")


def _style(settings: FaceSettings) -> bytes:
    rules = [] if settings.logo is None else [_LOGO]
    if {"color", "dark_color"} & settings.model_fields_set:
        rules += [
            f":root {{ --accent: {settings.color} }}",
            (
                "@media (prefers-color-scheme: dark) "
                f"{{ :root {{ --accent: {settings.dark_color} }} }}"
            ),
        ]
    return "".join(f"{rule}\n" for rule in rules).encode()


def _readable(color: str, background: str) -> str:
    found = contrast(color, background)
    if found < MIN_CONTRAST:
        raise ValueError(
            f"has a contrast of {found:.1f} to the background {background}; texts need "
            f"{MIN_CONTRAST} or more"
        )
    return color


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours such as `#2563a8`, from 1 to 21. Source: WCAG 2.2."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
