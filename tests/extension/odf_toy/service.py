"""What the service does: a setting, a part with a runner, two routes, an error, a part of pages."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from fastapi import APIRouter, Depends
from markupsafe import Markup
from starlette.responses import Response

from odf_node.service.http.answers import JsonAnswer
from odf_node.service.http.deps import BaseDep, ReadableDep, StoresDep, wired
from odf_node.service.jobs.job_watch import accepted
from odf_node.service.pages.datasets.blocks import Visit
from odf_node.service.pages.datasets.content import PagePart
from odf_node.service.wiring import Node
from odf_protocol.errors import Refused
from odf_storage.runtime.environment import BaseSettings
from odf_storage.stores.ports.values import JobSpec


class ToySettings(BaseSettings):
    """Read from `ODF_TOY_…`."""

    PREFIX: ClassVar[str] = "ODF_TOY_"

    word: str = "Hello"


class Greetings:
    """Makes greetings; a runner while the service runs."""

    def __init__(self, word: str) -> None:
        self.word, self.is_running = word, False

    def start(self) -> None:
        self.is_running = True

    def stop(self) -> None:
        self.is_running = False


GreetingsDep = Annotated[Greetings, Depends(wired(Greetings))]


def parts(node: Node) -> Iterator[object]:
    yield Greetings(node.part(ToySettings).word)


def runners(node: Node) -> Iterator[Greetings]:
    yield node.part(Greetings)


def greeting(entry: ReadableDep, greetings: GreetingsDep) -> JsonAnswer:
    name = str(entry.alias.name)
    if name == "shy":
        raise Refused("TooShy", "this dataset is shy")
    return JsonAnswer({"text": f"{greetings.word}, {name}!", "isRunning": greetings.is_running})


def greet_later(entry: ReadableDep, stores: StoresDep, base: BaseDep) -> Response:
    job = stores.jobs.submit(JobSpec("toy.greet", entry.id, {"name": str(entry.alias.name)}))
    return accepted(job, base)


def add_routes(routes: APIRouter, prefix: str) -> None:
    routes.get(prefix + "/greeting", response_model=None)(greeting)
    routes.post(prefix + "/greeting", response_model=None)(greet_later)


def page_part(visit: Visit) -> PagePart | None:
    if str(visit.entry.alias.name) == "broken":
        raise ValueError("no part today")
    return PagePart("Greeting", Markup("<p>Hello, <b>{}</b></p>").format(visit.alias))
