"""Classes of the JVM that are asked for at every call, looked up once.

PySpark asks the JVM anew for the class of its functions, and for the method, whenever a column is
made; and the JVM looks through all of its jars for each package it is told to try. An iteration
with state asked six hundred times, which took a sixth of what planning it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from py4j.java_gateway import GatewayClient, JavaClass, JavaMember, JVMView

_ASKED_OFTEN: Mapping[str, str] = {
    "functions": "org.apache.spark.sql.functions",
    "org.apache.spark.sql.functions": "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession": "org.apache.spark.sql.classic.SparkSession",
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.expressions.Window": "org.apache.spark.sql.expressions.Window",
}
"""Names PySpark uses, and whose they are."""


class KnownClass(JavaClass):  # type: ignore[misc]
    """A class that asks for each of its methods once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            setattr(self, name, found)
        return found


@cache
def known_class(client: GatewayClient, name: str) -> KnownClass:
    """A class by its whole name: each step of a path would be a question."""
    return KnownClass(name, client)


def remember_classes(jvm: JVMView) -> None:
    """Lets PySpark find what it asks for often without asking the JVM."""
    for asked, name in _ASKED_OFTEN.items():
        setattr(jvm, asked, known_class(jvm._gateway_client, name))
