"""Cache the JVM classes and methods that PySpark would otherwise look up at every call.

Whenever PySpark makes a column, it looks up the class of its functions, and the method, in the JVM;
the JVM then searches all of its jars for each candidate package. An iteration with state made six
hundred look-ups, which took a sixth of its planning time.
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
"""Full class name by the name that PySpark looks up."""


class KnownClass(JavaClass):  # type: ignore[misc]
    """A class of the JVM that looks up each of its methods only once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            setattr(self, name, found)
        return found


@cache
def known_class(client: GatewayClient, name: str) -> KnownClass:
    """Return a class by its full name. A path of attributes would cost a call for each step."""
    return KnownClass(name, client)


def remember_classes(jvm: JVMView) -> None:
    """Give PySpark the classes that it often looks up, so that it does not call the JVM."""
    for asked, name in _ASKED_OFTEN.items():
        setattr(jvm, asked, known_class(jvm._gateway_client, name))
