"""Features: what a node can live without takes part by a record, whichever package it is from.

A record names attributes (`module:attribute`), and a program imports those that it needs when it
needs them. Other packages name their records as entry points:

    [project.entry-points."odf_node.features"]
    toy = "toy:FEATURE"

`docs/extensions.md` is about writing one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from odf_protocol.errors import NodeFault

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "odf_node.features"
Place = str
"""The name of an attribute, `module:attribute`."""


@dataclass(frozen=True, kw_only=True)
class Feature:
    """What one feature adds to a node. Everything but its name may be left out."""

    name: str
    settings: Place = ""
    """A subclass of `FeatureSettings`; handlers get its instance as they get any part."""
    parts: Place = ""
    """`f(node) -> Iterable[object]`: what handlers ask for by class."""
    router: Place = ""
    """A `fastapi.APIRouter` with addresses of its own."""
    knows_parameters: bool = True
    """Whether unknown query parameters of `router` are refused; foreign clients send some."""
    dataset_routes: tuple[Place, ...] = ()
    """`f(routes: APIRouter, prefix: str)`: adds routes below the address of a dataset."""
    dataset_files: Place = ""
    """As `dataset_routes`, for files whose errors have the form of the transfer protocol."""
    addresses: Place = ""
    """`f(node) -> Iterable[Route]`: addresses in front of the framework."""
    missing: tuple[str, Place] | None = None
    """A folder of addresses, and `f(method, path) -> NodeError` for those that are not served."""
    runners: Place = ""
    """`f(node) -> Iterable[Runner]`: have `start()` and `stop()`, and run as long as the
    service."""
    logins: Place = ""
    """`f(node) -> Iterable[LoginWay]`: ways to sign in beside passwords and access tokens."""
    page_part: Place = ""
    """`f(visit) -> PagePart | None`: a section of the page of a dataset."""
    dataset_pages: Mapping[str, Place] = field(default_factory=dict)
    """`f(visit, request) -> PagePart`: pages of a dataset, by the query parameter that selects
    each."""
    commands: Mapping[str, tuple[Place, str]] = field(default_factory=dict)
    """Commands of `odf-node` by name: a `click.Command`, and its help in one line."""
    jobs: Mapping[str, Place] = field(default_factory=dict)
    """`f(context: JobContext, job: Job) -> dict`: what workers do, by kind of job."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """HTTP statuses of errors that have another one than their branch, by name."""


def loaded(place: Place) -> Any:
    """Return the attribute that a record names."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


@cache
def installed() -> tuple[Feature, ...]:
    """Return the records that other packages name, in the order of their names.

    Raises:
        FeatureUnusable: a record cannot be imported or is none, or two claim one name.
    """
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    found = tuple(_record(point) for point in sorted(entry_points(group=GROUP)))
    for what in ("name", "commands", "jobs"):
        claimed: dict[str, str] = {}
        for feature in found:
            value = getattr(feature, what)
            for name in [value] if isinstance(value, str) else value:
                if name in claimed:
                    raise NodeFault(
                        "FeatureUnusable",
                        f"two installed features claim {name!r} in their {what}: "
                        f"{claimed[name]} and {feature.name}; uninstall one",
                    )
                claimed[name] = feature.name
    return found


def _record(point: EntryPoint) -> Feature:
    try:
        record = point.load()
    except Exception as error:
        raise NodeFault(
            "FeatureUnusable",
            f"the installed feature {point.name} ({point.value}) cannot be loaded: {error!r}",
        ) from error
    if not isinstance(record, Feature):
        raise NodeFault(
            "FeatureUnusable",
            f"the installed feature {point.name} ({point.value}) is no Feature record",
        )
    return record
