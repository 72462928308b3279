"""Spark reads datasets by its own JDBC source, through the JDBC driver of Apache Arrow."""

from __future__ import annotations

from collections.abc import Iterator

import jdbc
import pytest
from service import SCHEMA, Service, described, seeded, serving
from user_spark import UserSpark, user_spark

from odf_protocol.metadata.events import SetDataSchema

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.skipif(not jdbc.DRIVERS, reason="no JDBC driver in .venv/jdbc"),
]
READ = """
spark.sql(f"ADD JAR '{driver}'")
reader = spark.read.format("jdbc").option("url", url)
reader = reader.option("driver", "org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver")
table = reader.option("dbtable", 'kamu.kamu."city"').load()
later = table.where("city > 'c0' and cast(system_time as timestamp) > '2049-12-31'")
largest = reader.option("dbtable", "(select max(population) as n from city) t").load()
found = [table.count(), [row.city for row in later.orderBy("offset").collect()],
         str(later.selectExpr("cast(system_time as timestamp)").first()[0]),
         int(largest.first().n)]
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("jdbc") / "node"
    with serving(folder, flight_port=0, turn_wait_s=60) as service:
        chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(3)
        service.keep(chain, "kamu/city")
        yield service


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserSpark]:
    with user_spark(tmp_path_factory.mktemp("user")) as spark:
        yield spark


def test_a_dataset_is_a_table_of_sparks_jdbc_source(spark: UserSpark, service: Service) -> None:
    url = f"jdbc:arrow-flight-sql://127.0.0.1:{service.node.flight.port}/?useEncryption=false"
    names = {"driver": str(jdbc.DRIVERS[-1]), "url": f"{url}&user=anonymous&password=&times=text"}
    assert spark.run(READ, **names) == [3, ["c1", "c2"], "2050-01-01 12:00:00", 200]
