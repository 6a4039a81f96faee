"""Limits on the wire: whose account a key is, and the headers that OpenAI's clients know."""

from __future__ import annotations

import hashlib
import hmac
import math
import time

from anyorder.server.errors import ApiError
from anyorder.server.keys import ApiKey
from anyorder.server.limiter import Account, Clock, Lease
from anyorder.server.settings import ServerSettings


class Accounts:
    """An account per key, or one for everybody where no key is asked for."""

    def __init__(self, settings: ServerSettings, now: Clock = time.monotonic) -> None:
        keys = [*settings.keys, *(ApiKey(key=key) for key in settings.api_keys)]
        self._accounts = [(_digest(key.key), Account(key.limits(settings.limits), now, key.name)) for key in keys]
        self._anybody = None if keys else Account(settings.limits, now)

    def lease(self, authorization: list[str]) -> Lease:
        """A claim on the account of whoever sent these headers.

        Every key is compared, so that time does not tell which one was nearly right.

        Raises:
            ApiError: 401, the key is missing or wrong.
        """
        if self._anybody is not None:
            return Lease(self._anybody)
        scheme, _, key = (authorization[0] if len(authorization) == 1 else "").partition(" ")
        digest = _digest(key.strip())
        found = [account for known, account in self._accounts if hmac.compare_digest(digest, known)]
        if scheme.lower() != "bearer" or not found:
            message = "the API key is missing or wrong; send it as `Authorization: Bearer KEY`"
            raise ApiError(
                401, message, "authentication_error", code="invalid_api_key", headers={"www-authenticate": "Bearer"}
            )
        return Lease(found[0], salt=digest.hex())


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def limit_headers(account: Account) -> dict[str, str]:
    """`x-ratelimit-*`: what the client may have, what is left of it, and when all of it is there again."""
    headers: dict[str, str] = {}
    for unit, bucket in (("requests", account.requests), ("tokens", account.tokens)):
        if bucket is not None:
            headers[f"x-ratelimit-limit-{unit}"] = str(bucket.per_minute)
            headers[f"x-ratelimit-remaining-{unit}"] = str(max(math.floor(bucket.remaining()), 0))
            headers[f"x-ratelimit-reset-{unit}"] = duration(bucket.wait_s(bucket.per_minute))
    return headers


def duration(seconds: float) -> str:
    """`6m0s`, `1.2s`, `34ms`: as OpenAI writes times, rounded up."""
    whole_ms = math.ceil(seconds * 1000)
    if whole_ms < 1000:
        return f"{whole_ms}ms"
    minutes, rest_ms = divmod(whole_ms, 60_000)
    return f"{minutes}m{rest_ms / 1000:g}s" if minutes else f"{rest_ms / 1000:g}s"
