"""What this node attests of blocks, what others attested of them, and the routes for both.

The node signs that it ingested or computed a block, once the job ended, and that it replayed a
derivative if somebody asks. Others' attestations come by pushes; everything is served beside the
chain, so that nodes of other makes notice nothing.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.commitments import did_key
from odf_protocol.errors import BadInput, Conflict, LimitExceeded, NodeError
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import AddData, ExecuteTransform, HashedBlock
from odf_protocol.multihash import Multihash
from odf_protocol.trust.attestations import (
    RETIRED,
    Attestation,
    Claim,
    malformed_attestation,
    replayers,
)
from odf_storage.datasets.job_payloads import ingest_job, poll_job, transform_job, verify_job
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.stores.ports.values import DatasetEntry, Job, JobId, JobStatus, Succeeded
from odf_storage.stores.registers.accounts.sealing import SecretKeys
from odf_storage.stores.registers.signed.attestations import KeptAttestation
from odf_storage.stores.registers.signed.dataset_keys import opened_key

from ...client.nodes.limits import ClientLimits
from ...client.nodes.remotes import Location
from ..auth.access import Action
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import ActorDep, ReadableDep, WritableDep, wired
from ..http.parameters import parse_hash
from ..jobs.jobs import Jobs, find_job
from ..pages.datasets.blocks import Visit
from ..pages.datasets.content import PagePart
from ..pages.frame.render import rendered
from ..query.proofs import SigningKeys

_log = logging.getLogger("odf.attestations")
BODY_BYTES = 1024 * 1024
JOBS_AT_ONCE = 50
"""Jobs attested before the thread rests for a second: a signature takes a millisecond."""
ATTESTED_REST_S = 1.0
POLL_S = 30.0
"""Seconds to the next look if nothing wakes the thread."""
PAGE = 100
LINES = "application/vnd.in-toto.bundle"
"""Media type of attestations, a line each (`.intoto.jsonl`)."""
NEXT = "odf-next"
"""Header with the `after` of the next page."""
SALTED = "salted:"
SALTED_CHARS = 32
Facts = Callable[[dict[str, Any], dict[str, Any]], Mapping[str, Any]]
_CLAIMS: dict[str, tuple[Claim, Facts]] = {
    ingest_job.KIND: (
        Claim.INGESTION,
        lambda payload, _: {
            "body": payload.get("upload"),
            "source": payload.get("sourceName"),
            "mediaType": payload.get("mediaType"),
            "publisher": payload.get("signature"),
        },
    ),
    poll_job.KIND: (Claim.INGESTION, lambda _payload, _: {"source": "polling source"}),
    transform_job.KIND: (
        Claim.EXECUTION,
        lambda _, receipt: {
            "engine": receipt.get("engine"),
            "engineVersion": receipt.get("engineVersion"),
        },
    ),
}
"""By kind of job what is attested of its blocks, and facts of payload and receipt."""


@dataclass(frozen=True, kw_only=True)
class Attesting:
    """Attests what this node did, and keeps what others attest."""

    stores: Stores
    keys: SigningKeys
    sealing: SecretKeys
    """The keys that open those of datasets."""
    clock: Clock
    node: str
    """The name of the node, as in its log of heads."""
    salts: bytes = field(repr=False)
    """The secret of which the salts of accounts are made."""
    is_on: bool
    names_accounts: bool
    most_a_block: int
    limits: ClientLimits
    """Of what other nodes give, and where they may be."""

    def look(self) -> float:
        """Attest what jobs did that ended; return the seconds to the next look."""
        if self.is_on:
            self._endorse()
        waiting = self.stores.attestations.unattested(limit=JOBS_AT_ONCE)
        made = [each for job in waiting for each in self._of_job(job)] if self.is_on else []
        if waiting:
            self.stores.attestations.attested(waiting, made)
        return 0.0 if len(waiting) == JOBS_AT_ONCE else POLL_S

    def _endorse(self) -> None:
        """Have the keys of datasets say that this node publishes them; again, once the node has
        another key."""
        stores, node = self.stores, self.keys.active.public
        for dataset, sealed in stores.dataset_keys.unendorsed(node, limit=JOBS_AT_ONCE):
            try:
                key = opened_key(self.sealing, dataset, sealed)
                held = stores.dataset(DatasetRef(id=dataset))
                block = held.block(held.head())
            except NodeError as error:  # sealed with another key, or forgotten meanwhile
                _log.warning("%s endorses no node: %s", dataset, error.message)
            else:
                said = {"node": self.node, "nodeKey": did_key(node)}
                claim, at = Claim.ENDORSEMENT, self.clock()
                made = Attestation.sign(key, claim, dataset, block.raw, at, said)
                stores.attestations.attested([], [made])
            stores.dataset_keys.note_endorsed(dataset, node)

    def _of_job(self, name: JobId) -> Iterator[Attestation]:
        try:
            job = self.stores.jobs.get(name)
        except NodeError:  # forgotten with its dataset
            return
        outcome, dataset = job.outcome, job.spec.dataset
        if job.spec.kind not in _CLAIMS or dataset is None or not isinstance(outcome, Succeeded):
            return
        claim, facts = _CLAIMS[job.spec.kind]
        said = {**facts(job.spec.payload, outcome.result), "account": self._account(job)}
        for text in outcome.result["blocks"]:
            block = self.stores.blocks.find(dataset, Multihash.parse(text))
            if block is not None and isinstance(block.event, AddData | ExecuteTransform):
                yield self._signed(job, claim, block, said)

    def _signed(
        self, job: Job, claim: Claim, block: HashedBlock, said: Mapping[str, Any]
    ) -> Attestation:
        if job.spec.dataset is None or job.finished_at is None:
            raise TypeError(f"the job {job.id} has not ended, or is of no dataset")
        facts = {"node": self.node, "job": job.id, **said}
        return Attestation.sign(
            self.keys.active,
            claim,
            job.spec.dataset,
            block.raw,
            job.finished_at,
            {name: text for name, text in facts.items() if text is not None},
        )

    def _account(self, job: Job) -> str | None:
        """Return the name of the account that asked for the work, or a hash if it is not told."""
        account, dataset = job.spec.account, job.spec.dataset
        if account is None or dataset is None:
            return None
        if self.names_accounts:
            return self.stores.accounts.account(account).name
        salt = hmac.digest(self.salts, dataset.key, "sha256")
        return SALTED + hmac.digest(salt, account.encode(), "sha256").hex()[:SALTED_CHARS]

    def replayed(self, entry: DatasetEntry, job: Job) -> Attestation:
        """Attest that a verification made all executions of a derivative again.

        Raises:
            NotReplayed: the job did not do that, or found something else.
        """
        block = self.stores.blocks.find(entry.id, self._replayed_head(entry, job))
        if block is None:
            raise _not_replayed("the block is gone since")
        outcome = job.outcome
        found = _found(entry, outcome.result) if isinstance(outcome, Succeeded) else {}
        said = {"executions": str(found["replayed"]), "engines": list(found["engines"])}
        if self.keys.retired:
            said[RETIRED] = list(self.keys.retired)
        made = self._signed(job, Claim.REPLAY, block, said)
        self.stores.attestations.add([made], most=self.most_a_block)
        return made

    def _replayed_head(self, entry: DatasetEntry, job: Job) -> Multihash:
        if job.spec.kind != verify_job.KIND or job.spec.dataset != entry.id:
            raise _not_replayed("the job is no verification of this dataset")
        if job.status is not JobStatus.SUCCEEDED or not isinstance(job.outcome, Succeeded):
            raise _not_replayed("the job has not succeeded")
        asked = verify_job.payload_of(job.spec.payload)
        if asked.after is not None or asked.upto is not None or not (asked.replay and asked.rows):
            raise _not_replayed("it did not look at everything")
        found = _found(entry, job.outcome.result)
        if not found.get("ok"):
            raise _not_replayed("something is not as the chain says")
        if found["notVerifiable"]:
            count = found["notVerifiable"]
            raise _not_replayed(f"{count} execution(s) cannot be made again on this node")
        if not found["replayed"]:
            raise _not_replayed("the chain has no execution yet")
        return Multihash.parse(found["report"]["head"])

    def take_over(self, entry: DatasetEntry, remote: Location, token: str | None) -> None:
        """Keep what the node has, or was told, that a mirror follows, and go on where the last
        pull ended. What is not true, or too much of one block, is left out; what is about blocks
        that have not arrived yet is asked for again."""
        from ...client.nodes.http import open_http
        from ...client.nodes.node_api import NodeApi, NothingThere
        from ...client.proofs.attestations import (  # importing the client takes long
            MOST_PAGES,
            pages,
        )

        store, wrong, unknown = self.stores.attestations, list[NodeError](), 0
        after = store.taken(entry.id, str(remote))
        with open_http(self.limits) as http, suppress(NothingThere):  # a node of another make
            api = NodeApi(remote.base, token, http=http, limits=self.limits)
            found = pages(api, entry.id, after, told=wrong.append)
            for page, following in islice(found, MOST_PAGES):
                for each in page:
                    try:
                        unknown += self._keep(entry, [each])["unknownBlocks"]
                    except (BadInput, LimitExceeded) as error:
                        wrong.append(error)
                if not unknown:
                    store.note_taken(entry.id, str(remote), following)
        if wrong:
            _log.warning(
                "%d attestations of %s were left out: %s", len(wrong), entry.id, wrong[0].message
            )

    def add(self, entry: DatasetEntry, lines: bytes) -> dict[str, int]:
        """Keep what others attested of blocks of a dataset, a line each.

        What is said of blocks that the node does not have is left out, and counted.

        Raises:
            MalformedAttestation, OtherBlock: a line is none, or not about this dataset; none is
                kept. TooManyAttestations.
        """
        said = [Attestation.parse(line) for line in filter(None, lines.split(b"\n"))]
        if not said:
            raise malformed_attestation("the body has no line")
        return self._keep(entry, said)

    def _keep(self, entry: DatasetEntry, said: Sequence[Attestation]) -> dict[str, int]:
        found = list[Attestation]()
        for each in said:
            block = self.stores.blocks.find(entry.id, each.block)
            if block is None and each.dataset == entry.id:
                continue
            each.require(entry.id, b"" if block is None else block.raw)
            found.append(each)
        new = self.stores.attestations.add(found, most=self.most_a_block) if found else 0
        unknown = len(said) - len(found)
        return {"added": new, "known": len(found) - new, "unknownBlocks": unknown}


def _not_replayed(why: str) -> Conflict:
    return Conflict(
        "NotReplayed",
        f"a replay is attested after `odf-node verify --replay` found all well: {why}",
    )


def _found(entry: DatasetEntry, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a verification found of the dataset."""
    its = (each for each in result.get("datasets", ()) if each.get("id") == str(entry.id))
    return dict(next(its, {}))


def page_part(visit: Visit) -> PagePart | None:
    """Return the section of the page of a dataset: who attested what."""
    stores = visit.views.stores
    said = stores.attestations.signers(visit.entry.id)
    if not said:
        return None
    others = replayers((each.claim, each.signer, each.retired) for each in said)
    replays = [each for each in said if each.claim is Claim.REPLAY and each.signer in others]
    content = {
        "said": [(each, did_key(each.signer)) for each in said],
        "replays": len(replays),
        "upto": max((each.last for each in replays), default=0),
        "last": visit.state.num_blocks - 1,
        **visit.content(),
    }
    return PagePart("Attested", rendered("attested", content))


AttestingDep = Annotated[Attesting, Depends(wired(Attesting))]
JobsDep = Annotated[Jobs, Depends(wired(Jobs))]
After = Annotated[int, Query(ge=0, le=2**53)]
Limit = Annotated[int, Query(ge=1, le=PAGE)]


def listed(
    attesting: AttestingDep, entry: ReadableDep, after: After = 0, limit: Limit = PAGE
) -> Response:
    """Return what was attested of blocks of the dataset: envelopes (DSSE) with in-toto statements,
    a line each, in the order of their arrival. The header `odf-next` is the `after` of the next
    page."""
    store = attesting.stores.attestations
    return _lines(store.page(entry.id, after=after, limit=limit), after)


def of_block(
    block: str,
    attesting: AttestingDep,
    entry: ReadableDep,
    after: After = 0,
    limit: Limit = PAGE,
) -> Response:
    """Return what was attested of one block, in the same form."""
    name = parse_hash(block)
    store = attesting.stores.attestations
    return _lines(store.page(entry.id, after=after, limit=limit, block=name), after)


def _lines(found: Sequence[KeptAttestation], after: int) -> Response:
    last = found[-1].number if found else after
    content = b"".join(each.envelope + b"\n" for each in found)
    return Response(content, media_type=LINES, headers={NEXT: str(last)})


async def add(request: Request, attesting: AttestingDep, entry: WritableDep) -> Response:
    """Keep envelopes, a line each, if their signatures are good and the blocks are those of the
    dataset. Whose keys signed them is for readers to judge."""
    body = await small_body(request, BODY_BYTES)
    return JsonAnswer(await run_in_threadpool(attesting.add, entry, body))


def attest_replay(
    attesting: AttestingDep,
    jobs: JobsDep,
    actor: ActorDep,
    entry: WritableDep,
    job: Annotated[str, Query(max_length=100)],
) -> Response:
    """Sign that this node made all executions of the dataset again, by a verification that it did.
    Return the envelope."""
    found = find_job(jobs, actor, job, Action.WRITE)
    return Response(attesting.replayed(entry, found.job).envelope, 201, media_type=LINES)


def add_attestation_routes(routes: APIRouter, prefix: str) -> None:
    """Serve attestations below the dataset addresses."""
    at = prefix + "/attestations"
    tags: list[str | Enum] = ["trust"]
    routes.get(at, summary="What was attested of blocks", tags=tags)(listed)
    routes.post(at, summary="Add attestations", tags=tags)(add)
    routes.post(at + "/replay", summary="Attest a replay", tags=tags)(attest_replay)
    routes.get(at + "/{block}", summary="What was attested of a block", tags=tags)(of_block)
