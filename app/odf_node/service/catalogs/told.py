"""The facts of a dataset as of its head that catalogues and citations publish."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from odf_protocol.metadata.schema import DataSchema

_IN_ADDRESSES = "!#$%&'()*+,/:;=?@[]~"
"""Signs that an address may have as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetTold:
    """What everybody who may read the dataset may know of it."""

    id: str
    name: str
    account: str
    url: str
    """URL of the dataset, without a slash at the end."""
    base: str
    """URL of the node, with a slash at the end."""
    head: str
    version: str
    description: str
    keywords: tuple[str, ...]
    license: str | None
    """Its address."""
    spdx_id: str | None
    published: str
    modified: str
    watermark: str | None
    size: int
    schema: DataSchema | None

    @property
    def license_url(self) -> str | None:
        """The address of the license, if what its author wrote is one for browsers; signs that
        end an address are escaped."""
        if self.license is None or not self.license.startswith(("http://", "https://")):
            return None
        return quote(self.license, safe=_IN_ADDRESSES)

    @property
    def license_id(self) -> str | None:
        """The identifier of the license, if what its author wrote has the form of one."""
        signs = self.spdx_id or " "
        is_one = signs.isascii() and all(sign.isalnum() or sign in ".+-" for sign in signs)
        return signs if is_one else None

    @property
    def rows_url(self) -> str:
        """The URL of the current rows as of the head, as one file."""
        return self.rows_as("parquet", "facts")

    def rows_as(self, form: str, projection: str) -> str:
        """Return the URL of a projection as of the head, as one file of a format."""
        asked = {"format": form, "projection": projection, "asAt": self.head}
        return f"{self.url}/read?{urlencode(asked)}"
