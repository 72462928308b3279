"""Several manifests at once: in any order, circles named, all of them or none."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from service import serving

from odf_node.cli.main import main

ROOT = "kind: DatasetSnapshot\nversion: 1\ncontent: {{name: {name}, kind: Root, metadata: []}}\n"
DERIVED = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: {of}}}]
      transform: {{kind: Sql, engine: datafusion, query: select * from "{of}"}}
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    data = tmp_path_factory.mktemp("several")
    with serving(data, tenancy="single", query_check_s=0.01) as service:
        yield service


@pytest.fixture
def create(node, tmp_path):
    def run(*texts, code=0, words=()):
        files = []
        for at, text in enumerate(texts):
            files.append(tmp_path / f"{at}.yaml")
            files[-1].write_text(text)
        given = ["dataset", "create", *files, "--node", node.url, "--token", node.token(), *words]
        done = CliRunner().invoke(main, list(map(str, given)))
        assert done.exit_code == code, f"{done.exit_code}\n{done.output}\n{done.stderr}"
        return done

    return run


def there(node, name):
    with node.http(node.token()) as client:
        return client.get(f"/{name}").status_code == 200


def test_inputs_are_created_before_what_is_computed_from_them(create):
    done = create(
        DERIVED.format(name="c", of="b"), DERIVED.format(name="b", of="a"), ROOT.format(name="a")
    )
    said = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("created")]
    assert said == ["a", "b", "c"]


def test_documents_of_one_file_are_several_manifests(node, create):
    create(DERIVED.format(name="e", of="d") + "---\n" + ROOT.format(name="d"))
    assert there(node, "d")
    assert there(node, "e")


def test_when_one_is_refused_none_is_left(node, create):
    taken, fresh = ROOT.format(name="taken"), ROOT.format(name="fresh")
    create(taken)
    done = create(fresh, DERIVED.format(name="other", of="fresh"), taken, code=5)
    assert "taken" in done.stderr
    assert not there(node, "fresh")
    assert not there(node, "other")
    create(fresh, DERIVED.format(name="x", of="absent"), code=2)
    assert not there(node, "fresh")


def test_a_circle_is_named_and_nothing_is_created(node, create):
    done = create(DERIVED.format(name="p", of="q"), DERIVED.format(name="q", of="p"), code=2)
    assert "p from q from p" in done.stderr or "q from p from q" in done.stderr
    assert not there(node, "p")


def test_one_name_in_two_manifests_is_refused(node, create):
    create(ROOT.format(name="twice"), ROOT.format(name="Twice"), code=2)
    assert not there(node, "twice")
