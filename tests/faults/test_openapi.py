"""schemathesis: requests made from the OpenAPI description, valid and not; no answer may contradict it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run

pytestmark = pytest.mark.nightly

# Of each kind of request for each operation.
EXAMPLES = 40


def test_the_openapi_description_holds(victim: Any, undisturbed: Any, tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run", f"{victim.url}/openapi.json",
        "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "1",
        "--request-timeout", "60", "--no-color", "--generation-database", "none",
        "--exclude-path-regex", "^/(metrics|livez|readyz)$",
    ]  # fmt: skip
    # Models that are not on this machine answer 503, which is right.
    (tmp_path / "schemathesis.toml").write_text(
        '[checks.not_a_server_error]\nexpected-statuses = ["2xx", "3xx", "4xx", "503"]\n'
    )
    with undisturbed():
        done = run(*command, seconds=900, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-15_000:] + done.stderr[-2_000:]
