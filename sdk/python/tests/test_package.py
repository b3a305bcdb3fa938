"""The package as it is installed: each program of the README works in an empty directory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import BINARY, PATIENCE, ROOT

HERE = ROOT / "sdk/python"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The python of a fresh environment with the wheel in it."""
    directory = tmp_path_factory.mktemp("package")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
                    "--disable-pip-version-check", "-w", directory, HERE], check=True, timeout=120)
    [wheel] = directory.glob("callboard-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True, timeout=120)
    subprocess.run([sys.executable, "-m", "pip", "--python", directory / "venv/bin/python", "install", "-q", "--no-compile",
                    "--disable-pip-version-check", wheel], check=True, timeout=180)
    return str(directory / "venv/bin/python")


class Home:
    """An empty directory, the home of somebody who has only the environment and the program."""

    def __init__(self, directory: Path, python: str) -> None:
        self.directory, self.python = directory, python
        self.environment = {"HOME": str(directory), "PATH": os.environ["PATH"]}

    def run(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self.directory, env=self.environment, capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(command, cwd=self.directory, env={**self.environment, **environment},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def home(tmp_path: Path, python: str) -> Iterator[Home]:
    home = Home(tmp_path, python)
    dev = home.start(BINARY, "dev", "--simulated", "--listen", "127.0.0.1:0", "--data-dir", "data", "--first-prompt", "")
    try:
        assert dev.stdout is not None
        for line in dev.stdout:
            if "signed in" in line:
                break
        yield home
    finally:
        dev.terminate()
        dev.wait(PATIENCE)


def test_the_programs_of_the_readme_work(home: Home) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    for name, block in zip(("answer", "stream", "worker", "adder", "call"), blocks):
        (home.directory / f"{name}.py").write_text(block)
    assert home.run(home.python, "answer.py").strip()
    assert home.run(home.python, "stream.py").strip()
    (home.directory / "tour.py").write_text((HERE / "examples/tour.py").read_text())
    assert "a reviewer takes longer" in home.run(home.python, "tour.py")
    (home.directory / "worker.key").write_text(
        home.run(BINARY, "keys", "create", "--name", "worker", "--role", "worker"))
    url = json.loads((home.directory / ".config/callboard/credentials.json").read_text())["current"]
    worker = home.start(home.python, "worker.py", CALLBOARD_API_KEY_FILE="worker.key", CALLBOARD_SERVER=url)
    try:
        said = home.run(BINARY, "tasks", "submit", "say hello", "--model", "shout", "--queue", "loud", "--wait")
        assert "SAY HELLO" in said
        adder = home.start(home.python, "adder.py", CALLBOARD_API_KEY_FILE="worker.key", CALLBOARD_SERVER=url)
        try:
            assert home.run(home.python, "call.py").strip() == "3"
        finally:
            adder.terminate()
            adder.wait(PATIENCE)
    finally:
        began = time.monotonic()
        worker.terminate()
        assert worker.wait(PATIENCE) == 0 and time.monotonic() - began < 10
