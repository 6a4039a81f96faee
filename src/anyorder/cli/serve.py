"""`anyorder serve`: a model behind HTTP, until a signal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from anyorder.cli.decoding import load_model
from anyorder.cli.flags import DECODE_FLAGS, LOAD_FLAGS, Flag, field_docs, takes
from anyorder.cli.preset import PRESET_FLAGS, with_preset
from anyorder.cli.serve_config import PARTS, merged, read_config
from anyorder.cli.terminal import err_console
from anyorder.errors import EngineFailed, MissingExtra
from anyorder.params import DecodeParams
from anyorder.server import settings as server_settings
from anyorder.server.extra import check_tracing
from anyorder.server.settings import ServerSettings
from anyorder.serving import settings as engine_settings
from anyorder.serving.settings import ServiceSettings

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

NAME = "serve"
HELP = """Serve a model over HTTP, in OpenAI's shape: chats, completions, streams; diffusion shown as it happens.

Listens on 127.0.0.1:8000 until Ctrl-C or SIGTERM, which let running answers end.
Decoding and sampling flags are what requests get that do not say otherwise.
A --config FILE has the same names, with underscores, in its tables server, engine, model and decoding; flags go first.
"""
EXAMPLES = """[bold]Examples[/]

anyorder serve

anyorder serve --model GSAI-ML/LLaDA-8B-Instruct --name llada --policy threshold --threshold 0.9

anyorder serve --config serve.toml --host 0.0.0.0 --api-keys-file keys.txt

curl localhost:8000/v1/chat/completions -H 'content-type: application/json' \\
  -d '{"model": "smollm2", "messages": [{"role": "user", "content": "Hi!"}], "stream": true}'
"""
SERVER_PANELS: dict[str, tuple[str, ...]] = {
    "Server": ("host", "port", "name", "fim_tokens", "tool_parser", "reasoning_parser", "insecure", "cors_origins",
               "otlp_endpoint"),
    "Limits per client": ("requests_per_minute", "tokens_per_minute", "concurrent_requests"),
    "Limits": ("max_body_bytes", "max_choices", "max_images", "max_connections", "header_timeout_s",
               "body_timeout_s", "write_timeout_s", "request_timeout_s", "ping_s", "drain_s"),
}  # fmt: skip
"""Help panel -> the fields of `ServerSettings` in it; keys come from a file, since others can see flags."""


def _settings_flags(module: Any, kind: type, panels: Mapping[str, tuple[str, ...]]) -> tuple[Flag, ...]:
    """A flag per field, with its docstring."""
    docs = field_docs(Path(module.__file__).read_text("utf-8"), kind.__name__)
    hints, defaults = get_type_hints(kind), {field.name: field.default for field in fields(kind)}
    return tuple(
        Flag(
            name=name,
            help=docs[name].replace("None:", "Left out:"),
            panel=panel,
            shown_default=False if defaults[name] in (None, (), False) else str(defaults[name]),
            **_reading(hints[name]),
        )
        for panel, names in panels.items()
        for name in names
    )


def _reading(hint: Any) -> dict[str, Any]:
    if hint in (int, float):
        return {"type": hint, "metavar": "N" if hint is int else "X"}
    if hint is bool:
        return {"type": bool}
    return {"type": list[str] if hint == tuple[str, ...] else str, "metavar": "TEXT"}


SERVER_FLAGS = _settings_flags(server_settings, ServerSettings, SERVER_PANELS)
ENGINE_FLAGS = _settings_flags(
    engine_settings, ServiceSettings, {"Engine": tuple(field.name for field in fields(ServiceSettings))}
)
CONFIG_FLAGS = (
    Flag(name="config", type=Path, metavar="FILE", panel="Server", help="A TOML file with any of the settings."),
    Flag(name="api_keys_file", type=Path, metavar="FILE", panel="Server",
         help="A file with an API key per line; requests need one of them."),
)  # fmt: skip


@takes(
    files=CONFIG_FLAGS, server=SERVER_FLAGS, engine=ENGINE_FLAGS, load=LOAD_FLAGS, preset=PRESET_FLAGS,
    params=DECODE_FLAGS,
)  # fmt: skip
def command(
    *,
    files: dict[str, Any],
    server: dict[str, Any],
    engine: dict[str, Any],
    load: dict[str, Any],
    preset: dict[str, Any],
    params: dict[str, Any],
) -> None:
    """Everything is checked before the model is loaded."""
    check_extra()
    given = dict(zip(PARTS, (server, engine, load, with_preset(params, **preset)), strict=True))
    config = merged(read_config(files.get("config")), given, files.get("api_keys_file"))
    settings, limits = ServerSettings(**config["server"]), ServiceSettings(**config["engine"])
    defaults = DecodeParams.of(**config["decoding"])
    if settings.otlp_endpoint is not None:
        check_tracing()
    run(load_model(config["model"]), settings, limits, defaults)


def check_extra() -> None:
    """Refuse to go on without the packages of the extra `server`."""
    for name in ("starlette", "uvicorn", "prometheus_client"):
        if find_spec(name) is None:
            raise MissingExtra(f"anyorder serve needs {name}: pip install 'anyorder[server]'")


def run(model: LoadedModel, settings: ServerSettings, limits: ServiceSettings, defaults: DecodeParams) -> None:
    """Serve until a signal.

    Raises:
        EngineFailed: the engine died, and the server with it.
        OSError: the address is in use.
    """
    from anyorder.server.serve import listen, make_server
    from anyorder.serving import Service

    log_to_stderr()
    deaths: list[bool] = []
    server = make_server(Service(model, limits), settings, defaults, on_death=lambda: deaths.append(True))
    with listen(settings) as socket:
        host, port = socket.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        err_console().print(f"serving {model.source} at http://{name}:{port}/v1", soft_wrap=True)
        server.run(sockets=[socket])
    if deaths:
        raise EngineFailed("the engine failed and the server has ended; the log above has the cause")


def log_to_stderr() -> None:
    """A line of JSON per request, and what else is worth knowing."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (("anyorder", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
