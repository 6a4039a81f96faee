"""What must hold of every answer, whatever the parameters: checked on the event stream while it runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anyorder.api import EventStream
from anyorder.canvas import Hole
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.edit import EditingDecoder
from anyorder.events import BlockFinished, Committed, Decided, Event, Finished, Opened, Revised, Started
from anyorder.generation import Generation
from anyorder.models.loaded import LoadedModel
from anyorder.policies.catalog import POLICIES

IDLE_SCHEDULES = ("timesteps",)  # Dream's time grid may give a pass nothing to do


class Audit:
    """Replays the events of one request and checks them against the rules."""

    def __init__(self, model: LoadedModel, prompt: Sequence[int | Hole], stream: EventStream) -> None:
        self.model = model
        self.stream = stream
        self.params = stream.params[0]
        self.decoder = stream.engine.sequences[0].decoder
        self.edits = isinstance(self.decoder, EditingDecoder)
        self.provisional: set[int] = set()
        self.revised = 0
        self.prompt = [
            token for part in prompt for token in ([None] * part.length if isinstance(part, Hole) else [part])
        ]
        self.ids: list[int | None] = []  # None: open
        self.committed: dict[int, int] = {}  # slot -> pass
        self.finished: Finished | None = None
        self.passes = 0
        self.started = 0

    def run(self, *, most_passes: int = 400) -> Generation:
        """The finished answer; fails at the first broken rule."""
        stream = self.stream
        for event in stream.engine.start():
            self._take(event)
            stream.folds[0].add(event)
        self.started = 1
        while stream.engine.running:
            assert self.finished is None
            self._step(most_passes)
        answer = stream.folds[0].result(stream.stats())
        self._check_answer(answer)
        return answer

    def _step(self, most_passes: int) -> None:
        before, stop_before = len(self.committed), self.first_stop()
        events = self.stream.engine.step()
        writing = isinstance(self.decoder, BlockDecoder) and self.decoder.writing
        for event in events:
            if isinstance(event, Committed):
                assert event.pass_index == self.passes
                behind = stop_before is not None and max(event.slots) > stop_before
                assert self.edits or not behind, "decided behind the stop token"
            self._take(event)
            self.stream.folds[0].add(event)
        self.passes += 1
        assert self.passes <= most_passes, "does not come to an end"
        schedule = POLICIES[self.params.policy].schedule if self.params.policy else "none"
        idle = writing or self.edits or schedule in IDLE_SCHEDULES
        assert len(self.committed) > before or idle, "a pass without a commit"
        if not writing or self.committed:
            done = self._nothing_left() and not self.provisional
            assert (self.finished is not None) == done, "stopped too early or too late"

    def _take(self, event: Event) -> None:
        match event:
            case Started():
                self.ids = [None if slot in event.open else token for slot, token in enumerate(event.ids)]
                assert event.answer_start == len(self.prompt)
                assert self.ids[: len(self.prompt)] == self.prompt
                for slot in range(len(self.prompt), len(self.ids)):
                    assert self.ids[slot] == self.params.forced.get(slot - len(self.prompt))
            case Opened():
                assert event.start == len(self.ids) < event.end
                assert self.first_stop() is None, "the canvas grew behind a stop token"
                self.ids += [dict(event.given).get(slot) for slot in range(event.start, event.end)]
                for slot in range(event.start, event.end):
                    assert self.ids[slot] == self.params.forced.get(slot - len(self.prompt))
            case Committed() | Revised():
                self._take_decision(event)
            case BlockFinished():
                self.provisional -= set(range(event.start, event.end))
                assert event.passes == self.passes + self.started
                stop = self.first_stop()
                assert None not in self.ids[event.start : event.end if stop is None else min(stop, event.end)], (
                    "an open block is finished"
                )
            case Finished():
                assert self.finished is None
                self.finished = event
            case _:
                raise AssertionError(event)

    def _take_decision(self, event: Decided) -> None:
        assert event.slots
        assert len(event.slots) == len(event.ids) == len(event.confidence)
        for slot, token, confidence in zip(event.slots, event.ids, event.confidence, strict=True):
            if isinstance(event, Revised):
                assert slot in self.provisional, "a slot was revised that was decided for good"
                assert self.ids[slot] != token, "a slot was revised to what it was"
            else:
                assert self.ids[slot] is None, "a slot that is not open was decided"
            assert 0 <= token < self.model.config.vocab_size
            assert token not in self.params.banned_ids
            assert token != self.model.mask_token_id or self.params.mode == "causal", "the mask id was committed"
            assert math.isfinite(confidence)
            assert 0 <= confidence <= 1 + 1e-6
            self.ids[slot] = token
            self.committed[slot] = event.pass_index
        assert event.provisional == self.edits
        if event.provisional:
            self.provisional |= set(event.slots)
        self.revised += len(event.slots) * isinstance(event, Revised)

    @property
    def end(self) -> int:
        return len(self.prompt) + self.params.max_new_tokens

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return self.model.stop_ids if self.params.stop_ids is None else self.params.stop_ids

    def first_stop(self) -> int | None:
        stops = [s for s in self.committed if s >= len(self.prompt) and self.ids[s] in self.stop_ids]
        return min(stops, default=None)

    def _nothing_left(self) -> bool:
        stop = self.first_stop()
        if stop is not None and None not in self.ids[:stop]:
            return True
        return len(self.ids) == self.end and None not in self.ids

    def _check_answer(self, answer: Generation) -> None:
        stop, finished, start = self.first_stop(), self.finished, len(self.prompt)
        assert finished is not None
        assert len(self.ids) <= self.end
        assert [
            None if a is None else b for a, b in zip(self.ids, self.decoder.canvas.ids.tolist(), strict=True)
        ] == self.ids
        assert answer.finish_reason == finished.reason == ("length" if stop is None else "stop")
        assert list(answer.ids) == self.ids[start : self.end if stop is None else stop]
        assert None not in answer.ids
        assert list(answer.prompt_ids) == self.ids[:start]
        assert len(answer.ids) == self.params.max_new_tokens or stop is not None
        assert answer.stats.passes == finished.passes == self.passes == self.stream.engine.clock.passes
        assert [slot.slot for slot in answer.trace] == sorted(self.committed)
        counted = sum(stop is None or slot <= stop for slot in self.committed)
        assert answer.stats.tokens == counted
        assert answer.stats.revised == self.revised
        assert answer.stats.wasted == len(self.committed) - counted
        assert answer.stats.positions >= answer.stats.tokens


def audited(
    stream: EventStream, model: LoadedModel, prompt: Sequence[int | Hole], *, most_passes: int = 400
) -> Generation:
    """Run a stream to its end under every rule."""
    return Audit(model, prompt, stream).run(most_passes=most_passes)
