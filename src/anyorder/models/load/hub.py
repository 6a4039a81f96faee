"""Download of a checkpoint from the Hugging Face hub: safetensors, JSON and tokenizer files only, never code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anyorder.errors import ModelError

WANTED = ("*.safetensors", "*.json", "tokenizer.model", "merges.txt", "*.jinja")


def download(repo: str, *, revision: str | None = None, offline: bool = False, wanted: Sequence[str] = WANTED) -> Path:
    """Local snapshot folder of a hub repository; what the cache already has is not fetched again.

    Args:
        repo: "owner/name".
        revision: branch, tag or commit; None: the default branch.
        offline: look in the local cache only, as with the environment variable HF_HUB_OFFLINE.
        wanted: file name patterns.
    Raises:
        ModelError: not found, not cached while offline, access not granted, or the hub cannot be reached.
    """
    from huggingface_hub import errors, snapshot_download

    what = repo if revision is None else f"{repo} at revision {revision!r}"
    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(wanted), local_files_only=offline))
    except errors.GatedRepoError:
        raise ModelError(f"{what} is gated: accept its terms on its hub page, then set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise ModelError(f"{repo} has no revision {revision!r} on the hub") from None
    except errors.RepositoryNotFoundError:
        raise ModelError(
            f"{repo} is neither a local folder nor a public hub model (private ones need HF_TOKEN)"
        ) from None
    except errors.LocalEntryNotFoundError:
        raise ModelError(_not_cached(what, offline)) from None
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
        raise ModelError(f"{what} cannot be downloaded: {str(error).splitlines()[0]}") from None


def _not_cached(what: str, offline: bool) -> str:
    if offline:
        return f"{what} is not in the local hub cache; load it once without offline"
    return f"{what} is not in the local hub cache and the hub cannot be reached (or HF_HUB_OFFLINE is set)"
