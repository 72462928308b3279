"""Parts that create, define and change datasets."""

from __future__ import annotations

from functools import cached_property

from ..datasets.access import DatasetRoles
from ..datasets.datasets import Authoring
from ..datasets.definition import Checking
from ..datasets.trial import (
    MAX_MANIFEST_BYTES,
    TRIAL_INPUT_ROWS,
    TRIAL_MANIFESTS,
    TRIAL_SAMPLE_BYTES,
    TRIAL_SHOWN_ROWS,
    TRIAL_WAIT_S,
    Trials,
)
from ..definitions.authors import Defining
from ..rewrite.history import Rewriting
from ..variables.variables import NodeVariables
from .jobs import JobParts


class DefinitionParts(JobParts):
    """Parts that create, define and change datasets."""

    @cached_property
    def defining(self) -> Defining:
        return Defining(self.stores, self.access)

    @cached_property
    def dataset_roles(self) -> DatasetRoles:
        return DatasetRoles(self.stores.accounts, self.stores.roles, self.roles)

    @cached_property
    def variables(self) -> NodeVariables:
        return NodeVariables(self.stores.variables, self.secret_keys, self.clock)

    @cached_property
    def authoring(self) -> Authoring:
        return Authoring(self.stores, self.access, self.defining, self.clock, self.random)

    @cached_property
    def checking(self) -> Checking:
        return Checking(self.stores, self.stores.jobs, self.watch, self.settings.query_check_s)

    @cached_property
    def trials(self) -> Trials:
        return Trials(
            authoring=self.authoring,
            pressure=self.pressure,
            jobs=self.stores.jobs,
            watch=self.watch,
            patience_s=TRIAL_WAIT_S,
            sample_bytes=TRIAL_SAMPLE_BYTES,
            manifests=TRIAL_MANIFESTS,
            input_rows=TRIAL_INPUT_ROWS,
            shown_rows=TRIAL_SHOWN_ROWS,
            manifest_bytes=MAX_MANIFEST_BYTES,
        )

    @cached_property
    def rewriting(self) -> Rewriting:
        return Rewriting(self.stores, self.defining, self.clock)
