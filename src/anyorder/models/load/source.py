"""What a user may pass to `load`: a folder, a GGUF file, a hub id or the default model; all become a local folder."""

from __future__ import annotations

import re
from pathlib import Path

from anyorder.errors import ModelError
from anyorder.models.load.adapter import is_adapter

DEFAULT, TASKS = "smollm2", "tasks"
BUILT_IN = (DEFAULT, TASKS)
"""Names of models that come with this package, or as a distribution beside it."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def locate(
    source: str | Path | None, *, revision: str | None = None, offline: bool = False, config_only: bool = False
) -> Path:
    """Local checkpoint folder with config.json and safetensors; converts or downloads when necessary. Or the folder of
    an adapter, if `source` is one (`is_adapter`).

    Args:
        source: folder, *.gguf file, hub id "owner/name", "tasks" for the small any-order model, or None or
            "smollm2" for the default model.
        revision: branch, tag or commit; hub ids only.
        offline: use the hub's local cache only.
        config_only: of a hub id only config.json is needed; its weights are not downloaded.
    Raises:
        ModelError: nothing usable there.
    """
    if source is None or source == DEFAULT:
        from anyorder.models.load.default import default_folder

        return default_folder()
    if source == TASKS:
        from anyorder.models.load.default import EMBEDDED

        return EMBEDDED / TASKS
    path = Path(source).expanduser()
    if path.is_dir():
        return _folder(path)
    if path.is_file():
        return _file(path)
    if isinstance(source, str) and HUB_ID.fullmatch(source) and path.suffix != ".gguf":
        from anyorder.models.load.hub import WANTED, download

        wanted = ("config.json",) if config_only else WANTED
        return download(source, revision=revision, offline=offline, wanted=wanted)
    raise ModelError(
        f"no model at {str(source)!r}: give a folder, a .gguf file, a hub id owner/name, {' or '.join(BUILT_IN)}"
    )


def locate_adapter(source: str | Path, *, offline: bool = False) -> Path:
    """Local folder of a LoRA adapter: a folder, or a hub id.

    Raises:
        ModelError: nothing there.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if isinstance(source, str) and HUB_ID.fullmatch(source):
        from anyorder.models.load.hub import download

        return download(source, offline=offline)
    raise ModelError(f"no adapter at {str(source)!r}: give a folder with adapter_config.json, or a hub id owner/name")


def _folder(path: Path) -> Path:
    if (path / "config.json").exists() or is_adapter(path):
        return path
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return _file(files[0])
    if files:
        raise ModelError(f"{path} holds {len(files)} GGUF files; give one of them, for example {files[0]}")
    raise ModelError(f"{path} has no config.json, so it is no checkpoint folder")


def _file(path: Path) -> Path:
    if path.suffix == ".gguf":
        from anyorder.models.load.gguf import converted

        return converted(path)
    if path.suffix == ".safetensors" or path.name == "config.json":
        raise ModelError(f"{path} is one file of a checkpoint; give its folder {path.parent}")
    raise ModelError(f"{path} is no model: give a checkpoint folder or a .gguf file")
