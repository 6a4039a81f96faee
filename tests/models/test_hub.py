"""Hub downloads: what is asked for, and one line for every way they fail. No test reaches the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import huggingface_hub
import pytest
from huggingface_hub import errors
from tests.models.tiny_models import write_checkpoint

from anyorder.errors import ModelError
from anyorder.models.load import load


def test_only_data_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def snapshot(repo: str, **options: Any) -> str:
        asked.update(options, repo=repo)
        return str(write_checkpoint(tmp_path))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    model = load("owner/name", revision="abc", offline=True)
    assert (asked["repo"], asked["revision"], asked["local_files_only"]) == ("owner/name", "abc", True)
    assert not [pattern for pattern in asked["allow_patterns"] if pattern.endswith((".py", ".bin", ".pt", ".gguf"))]
    assert model.source == "owner/name"


def test_offline_without_a_cached_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="owner/name is not in the local hub cache; load it once without offline"):
        load("owner/name", offline=True)


def response(status: int) -> Any:
    """Whatever HTTP library the hub client uses."""
    return MagicMock(status_code=status, headers={})


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.GatedRepoError("gated", response=response(403)), "is gated: accept its terms"),
        (errors.RepositoryNotFoundError("x", response=response(404)), "neither a local folder nor a public hub model"),
        (errors.RevisionNotFoundError("x", response=response(404)), "owner/name has no revision 'v9'"),
        (errors.LocalEntryNotFoundError("x"), "hub cannot be reached"),
        (errors.HfHubHTTPError("500 broken\nmore", response=response(500)), "cannot be downloaded: 500 broken$"),
        (OSError("disk full"), "cannot be downloaded: disk full"),
    ],
)
def test_failures_are_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, message: str) -> None:
    def snapshot(repo: str, **options: Any) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with pytest.raises(ModelError, match=message) as caught:
        load("owner/name", revision="v9")
    assert "\n" not in str(caught.value)
