"""The program as a person or a script sees it: build/release/pagoda on the fetched models."""
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGODA = ROOT / "build" / "release" / "pagoda"


def models_folder() -> Path:
    folder = os.environ.get("PAGODA_MODELS")
    return Path(folder or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pagoda/models"))


class Result:
    def __init__(self, process: subprocess.CompletedProcess):
        self.status = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    @property
    def json(self):
        return json.loads(self.out)


def pagoda(*arguments, stdin: bytes = b"", env: dict | None = None, timeout: float = 300) -> Result:
    command = [str(PAGODA), *map(str, arguments)]
    process = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout,
                             env={**os.environ, **(env or {})})
    return Result(process)


@pytest.fixture(scope="session", autouse=True)
def program():
    assert PAGODA.exists(), f"{PAGODA} is not built"


@pytest.fixture(params=["smollm2-135m", "gemma-3-270m"])
def model(request) -> str:
    assert (models_folder() / f"{request.param}.gguf").exists(), f"scripts/fetch-model {request.param} gets it"
    return request.param


@pytest.fixture
def smollm2() -> Path:
    return models_folder() / "smollm2-135m.gguf"
