"""What is generated is fresh, and the interface is whole and typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import callboard
import pytest
from callboard import errors
from callboard._base import wire_name
from callboard._login import Login

from .conftest import ROOT, Server

HERE = ROOT / "sdk/python"
TABLE = ROOT / "docs/reference/libraries.md"


@pytest.fixture(scope="session")
def document(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    with callboard.Callboard(server.url, "none") as cb:
        path.write_text(json.dumps(cb.system.openapi()))
    return path


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=HERE, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def test_the_generated_parts_are_those_of_the_server(document: Path) -> None:
    write = os.environ.get("CALLBOARD_WRITE_GOLDEN")
    run(sys.executable, HERE / "generate", *([] if write else ["--check"]), document)


def test_every_route_has_a_method_and_every_method_exists(document: Path) -> None:
    rows = dict(re.findall(r"^\| `(\w+ \S+)` \| (.*?) \|", TABLE.read_text(), re.MULTILINE))
    paths = json.loads(document.read_text())["paths"]
    routes = {f"{method.upper()} {path}" for path, it in paths.items() for method in it if method != "parameters"}
    assert routes == set(rows)
    assert not [route for route, methods in rows.items() if "MISSING" in methods]
    for kind in (callboard.Callboard, callboard.AsyncCallboard):
        client = kind("http://127.0.0.1:9", "none")
        for methods in rows.values():
            for name in re.findall(r"`cb\.([\w.]+)`", methods):
                found: object = client
                for part in name.split("."):
                    found = getattr(found, part)
                assert callable(found), name


def test_every_member_has_its_name_on_the_wire(document: Path) -> None:
    schemas = json.loads(document.read_text())["components"]["schemas"]
    for name, schema in schemas.items():
        model = getattr(callboard.models, name, None)
        for member in schema.get("properties", {}) if model else ():
            assert member in {wire_name(it) for it in model.model_fields}, f"{name}.{member}"


def test_every_code_has_a_class() -> None:
    answers, _, rest = (ROOT / "docs/reference/errors.md").read_text().partition("## Rules")
    assert rest
    codes = {code for row in re.findall(r"^\| \d{3} \| (.*?) \|", answers, re.MULTILINE) for code in re.findall(r"`(\w+)`", row)}
    assert codes == set(errors.BY_CODE)


def test_the_types_are_strict() -> None:
    run(sys.executable, "-m", "mypy", "--strict", "src", "examples")


def test_the_readme_has_the_examples() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    assert blocks == [(HERE / f"examples/{it}.py").read_text() for it in ("answer", "stream", "worker", "adder", "call")]


def test_a_key_is_in_no_text(server: Server) -> None:
    key = server.key("viewer")
    with callboard.Callboard(server.url, key) as cb:
        assert key not in repr(vars(cb)) + repr(cb._credentials)
    assert "hunter2" not in repr(Login("http://h", {"token": "hunter2"}))
    with pytest.raises(errors.ConfigurationError) as refused:
        callboard.Callboard("http://admin:hunter2@h")
    assert "hunter2" not in str(refused.value)
