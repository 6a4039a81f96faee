"""A real server on a free port, with a model of a few numbers behind it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import openai

from anyorder import DecodeParams
from anyorder.models.loaded import LoadedModel
from anyorder.server.background import serving
from anyorder.server.settings import ServerSettings
from anyorder.serving import Service, ServiceSettings

SMALL = ServiceSettings(kv_bytes=1 << 22)


@dataclass(frozen=True)
class Live:
    url: str
    service: Service
    model: str

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)

    def http(self, **options: Any) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=30, **options)

    def chat(self, **changes: Any) -> httpx2.Response:
        """A chat with one message, some of the request changed; `...` leaves a field out."""
        body = {"model": self.model, "messages": [{"role": "user", "content": "7 8"}], "max_tokens": 6, **changes}
        with self.http() as http:
            return http.post(
                "/v1/chat/completions", json={name: value for name, value in body.items() if value is not ...}
            )


@contextmanager
def live(
    model: LoadedModel,
    settings: ServerSettings | None = None,
    engine: ServiceSettings = SMALL,
    defaults: DecodeParams | None = None,
) -> Generator[Live]:
    """A running server; it has ended behind the block, and nothing runs in its engine."""
    settings = settings or ServerSettings()
    with serving(model, settings, engine, defaults) as running:
        yield Live(running.url, running.service, settings.name or model.source)
    status = running.service.status()
    assert (status.running, status.queued, status.columns_used) == (0, 0, 0)
