"""A sensor of Airflow that waits for a new head of a dataset, and takes no worker while it waits.

It succeeds with the hash of the head, which is the state that later tasks read, and the state after
which its next run waits. Put this file where the triggerer imports from: the folder of plugins.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
from airflow.sdk import BaseSensorOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

WAIT_S = 50


class HeadMoved(BaseTrigger):
    """Fires with the head of a dataset once it is another one than `after`."""

    def __init__(self, dataset: str, after: str | None, token: str | None, retry_s: float = 5):
        super().__init__()
        self.dataset, self.after, self.token, self.retry_s = dataset, after, token, retry_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("dataset", "after", "token", "retry_s")
        return "odf_heads.HeadMoved", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """A request waits at the node until the head moves, a minute at most; then the next one."""
        headers = {"prefer": f"wait={WAIT_S}"}
        if self.after:
            headers["if-none-match"] = f'"{self.after}"'
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        async with httpx.AsyncClient(headers=headers, timeout=2 * WAIT_S) as client:
            while True:
                try:
                    answer = await client.get(f"{self.dataset}/refs/head")
                except httpx.TransportError:  # the node starts again
                    await asyncio.sleep(self.retry_s)
                    continue
                if answer.status_code == httpx.codes.OK:
                    yield TriggerEvent({"head": answer.text.strip()})
                    return
                if answer.status_code in (httpx.codes.TOO_MANY_REQUESTS, *range(500, 600)):
                    await asyncio.sleep(self.retry_s)
                elif answer.status_code != httpx.codes.NOT_MODIFIED:
                    yield TriggerEvent({"error": answer.text, "status": answer.status_code})
                    return


class HeadSensor(BaseSensorOperator):
    """Waits until the head of `dataset`, a URL, is another one than in the last run that succeeded.

    `token` may be a template, so that it comes from a connection or a secret.
    """

    template_fields: Sequence[str] = ("dataset", "token")

    def __init__(self, *, dataset: str, token: str | None = None, **more: Any):
        super().__init__(**more)
        self.dataset, self.token = dataset, token

    def execute(self, context: Any) -> None:
        after = context["ti"].xcom_pull(task_ids=self.task_id, include_prior_dates=True)
        self.defer(
            trigger=HeadMoved(self.dataset, after, self.token), method_name="execute_complete"
        )

    def execute_complete(self, context: Any, event: dict[str, Any]) -> str:  # noqa: ARG002
        """The head; a refusal of the node is an error."""
        if "error" in event:
            raise RuntimeError(f"{self.dataset}: {event['status']} {event['error']}")
        return str(event["head"])
