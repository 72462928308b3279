"""Parts that create, define and change datasets."""

from __future__ import annotations

from functools import cached_property

from ..datasets.access import DatasetRoles
from ..datasets.datasets import Authoring
from ..datasets.definition import Checking
from ..datasets.trial import Trials
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
        settings = self.settings
        return Trials(
            authoring=self.authoring,
            pressure=self.pressure,
            jobs=self.stores.jobs,
            watch=self.watch,
            patience_s=settings.trial_wait_s,
            sample_bytes=settings.trial_sample_bytes,
            manifests=settings.trial_manifests,
            input_rows=settings.trial_input_rows,
            shown_rows=settings.trial_shown_rows,
            manifest_bytes=settings.max_manifest_bytes,
        )

    @cached_property
    def rewriting(self) -> Rewriting:
        return Rewriting(self.stores, self.defining, self.clock)
