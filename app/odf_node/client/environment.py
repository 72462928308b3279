"""Environment variables that the client reads, with their meanings."""

from __future__ import annotations

CONFIG = "ODF_NODE_CONFIG"
TOKEN = "ODF_NODE_TOKEN"  # noqa: S105 - its name
HOME = "ODF_NODE_URL"
VARIABLES = {
    CONFIG: "Folder of a person's own settings; default: ~/.config/odf-node.",
    TOKEN: "Access token for the node at ODF_NODE_URL.",
    HOME: "The person's node: that of datasets named without one, and of the token; "
    "without it, the token is for nodes on this machine.",
}
