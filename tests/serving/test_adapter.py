"""Models that denoise blocks behind causal text: a finished column is the same for both of their modes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.test_adapter import MODELS
from tests.serving.helpers import alone, assert_same, work
from tests.serving.steps import Steps, events_of

from anyorder.serving import ServiceSettings

TEXT = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 4, 5, 7]
BLOCKS: dict[str, Any] = {"mode": "block", "threshold": 0.1, "temperature": 1.0}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("first", [{"mode": "causal"}, BLOCKS])
@pytest.mark.parametrize("length", [15, 16, 17, 18])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_chunks_and_kept_prefixes_change_nothing(kind: str, first: dict[str, Any], length: int, share: float) -> None:
    """Two requests beside each other in two modes, then each again."""
    model = MODELS[kind]()
    steps = Steps(model, ServiceSettings(kv_bytes=1 << 18, prefix_share=share, prefix_unit=4, prefill_tokens=8))
    works = [work(TEXT[:length], **BLOCKS), work(TEXT[:length], **first)]
    for again in (False, True):
        tickets = [steps.submit(each) for each in works]
        steps.run()
        for each, ticket in zip(works, tickets, strict=True):
            assert_same(events_of(ticket), alone(model, each), passes=False)
            assert not again or (ticket.cached_tokens > 8) == (share > 0)
