"""Spark's own page: off unless a setting says otherwise, and then of a confined Spark as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from servers import free_port

from odf_workers.engines.spark import session as spark
from odf_workers.engines.spark.machine import rules_of

WORK = """
import sys
from pathlib import Path
from urllib.request import urlopen
from pyspark import cloudpickle
from odf_workers.engines.spark.session import SparkOptions, start_spark
from odf_workers.partitions.on_spark import OnSpark
from tests.workers.partitions import stages

cloudpickle.register_pickle_by_value(stages)
session = start_spark(SparkOptions(scratch=Path(sys.argv[1]), page_port=int(sys.argv[2])))
way = OnSpark(session)
way.read([(0, 10)], stages.counted).facts()
print(way.usage.page, way.usage.jobs)
with urlopen(way.usage.page + "/jobs/") as page:
    said = page.read().decode()
print("count" in said, "kill" in said.lower())
session.stop()
"""


def test_a_spark_has_no_page_unless_it_is_asked_for(tmp_path: Path) -> None:
    settings = {**spark.FIXED_SETTINGS, **spark._settings(spark.SparkOptions(), tmp_path)}
    assert settings["spark.ui.enabled"] == "false"
    assert "spark.ui.port" not in settings


def test_a_confined_spark_may_answer_at_its_page_and_at_no_other_chosen_port(
    tmp_path: Path,
) -> None:
    made = spark._machine(spark.SparkOptions(page_port=4040), tmp_path, {})
    assert set(rules_of(made).binds or ()) == {0, made.python_port, 4040}
    made = spark._machine(spark.SparkOptions(), tmp_path, {})
    assert set(rules_of(made).binds or ()) == {0, made.python_port}


@pytest.mark.spark
def test_the_page_of_a_confined_spark_shows_jobs_of_stages_and_ends_none(tmp_path: Path) -> None:
    port = free_port()
    words = [sys.executable, "-c", WORK, str(tmp_path), str(port)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"http://localhost:{port} 1", "True False"]
