"""Two processes that share a network in shards do what one process does; they meet on this machine's loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.training.team_run import CASES, train
from torch import Tensor

from anyorder.errors import ParameterError
from anyorder.training import log
from anyorder.training.distributed import Team, team

ROOT = Path(__file__).parents[2]
ALONE = Team(torch.device("cpu"))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs of two processes."""
    folder = tmp_path_factory.mktemp("two")
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.training.team_run", str(folder)],
            cwd=ROOT,
            env={**os.environ, **address, "RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    said = [process.communicate(timeout=600)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)
    return folder


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def losses(folder: Path) -> list[float]:
    return [record["loss"] for record in log.read(folder / "log.jsonl")]


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "weights.safetensors")


def assert_same_run(one: Path, other: Path, *, loss: float = 1e-4, weight: float = 1e-4) -> None:
    """Up to the order of sums."""
    assert losses(one) == pytest.approx(losses(other), rel=loss)
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    for name, value in a.items():
        assert (value - b[name]).norm() <= weight * value.norm(), name


@pytest.mark.parametrize("case", CASES)
def test_two_processes_are_one(two: Path, tmp_path: Path, case: str) -> None:
    """Same draws, normalisation, clipping, average; in bfloat16 each part of a batch is rounded by itself."""
    train(tmp_path, case, ALONE)
    rounding = {"loss": 1e-2, "weight": 2e-2} if case == "bfloat16" else {}
    assert_same_run(tmp_path, two / case, **rounding)
    assert losses(tmp_path)[0] == pytest.approx(losses(two / case)[0], rel=1e-4), "positions must not be rounded"


def test_two_processes_go_on_bit_by_bit(two: Path) -> None:
    assert losses(two / "halves") == losses(two / "network")
    for name, value in weights(two / "network").items():
        assert torch.equal(value, weights(two / "halves")[name]), name


@pytest.mark.filterwarnings("ignore:.*goes on with other settings. steps")
def test_another_number_of_processes_goes_on(two: Path, tmp_path: Path) -> None:
    """What two wrote is whole, so that one can go on from it."""
    shutil.copytree(two / "half", tmp_path / "half")
    train(tmp_path / "half", "network", ALONE)
    assert_same_run(tmp_path / "half", two / "network")


def test_rows_are_shared_equally() -> None:
    device = torch.device("cpu")
    assert [Team(device, rank, 3).own(6) for rank in range(3)] == [slice(0, 2), slice(2, 4), slice(4, 6)]
    with pytest.raises(ParameterError, match=r"`batch_rows` must be a multiple of the 3 processes, got 7"):
        Team(device, 0, 3).own(7)


def test_alone_there_is_nobody_to_ask() -> None:
    with team("cpu") as alone:
        assert (alone.leads, alone.size, alone.mesh) == (True, 1, None)
        assert alone.most(3, 0) == [3, 0]
        assert alone.agree(5) == 5
        values = torch.ones(2)
        assert alone.total(values) is values
