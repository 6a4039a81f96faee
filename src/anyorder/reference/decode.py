"""Recorded decoding runs, replayed pass by pass: what was fed, every canvas, the number of passes, the ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from anyorder.cache.storage import KVStorage
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.full import FullDecoder
from anyorder.models.loaded import LoadedModel
from anyorder.reference import canvases, stepwise
from anyorder.reference.outcome import Mismatch, expect
from anyorder.reference.samplers import build_rows
from anyorder.runner import Runner
from anyorder.window import Window

Case = dict[str, Any]
Row = BlockDecoder | FullDecoder


def check(model: LoadedModel, recorded: dict[str, Any], case: Case) -> str:
    """Replay one run.

    A run with a `quirk` is not replayed: our own run is held against one without any cache instead. A run of a sampler
    that leaves masks behind is replayed to its end, and ours has to go on until nothing is open.

    Raises:
        Mismatch: at the first difference.
    """
    if "canvases" in case:
        return canvases.check(model, case)
    if "steps" in case:
        return stepwise.check(model, case)
    if "quirk" in case:
        return _without_quirk(model, recorded, case)
    rows, paddings = build_rows(model, recorded, case), _paddings(case)
    replay = _Replay(model, rows)
    for index, call in enumerate(case["calls"]):
        if not replay.active():
            raise Mismatch(f"finished after {index} passes, recorded are {len(case['calls'])}")
        _compare_canvases(replay, call, paddings, index)
        replay.step(lambda plans, c=call, i=index: _compare_input(plans, c, paddings, i))
    unfilled = _left_open(case, model)
    while unfilled and replay.active():
        replay.step(lambda plans: None)
    expect(not replay.active(), f"not finished after the recorded {len(case['calls'])} passes")
    for row, output, padding in zip(rows, case["output_ids"], paddings, strict=True):
        _compare_output(row, output[padding:], case, model)
    return f"{len(case['calls'])} passes" + (", and further ones for what was left open" if unfilled else "")


class _Replay:
    """Steps the rows of a batch as the published samplers do: block models wait for each other at every sub-block."""

    def __init__(self, model: LoadedModel, rows: list[Row]) -> None:
        self.runner = Runner(model.network)
        self.rows = rows
        for row in rows:
            row.start()
        self.storages = [self.runner.storage(_columns(row)) for row in rows]

    def active(self) -> list[int]:
        """The rows that the next pass is about."""
        running = [index for index, row in enumerate(self.rows) if row.finished is None]
        stages = {i: row.stage for i, row in enumerate(self.rows) if i in running and isinstance(row, BlockDecoder)}
        return [i for i in running if not stages or stages[i] == min(stages.values())]

    @torch.inference_mode()
    def step(self, planned: Callable[[dict[int, list[Window]]], None]) -> None:
        """One pass; `planned` sees the windows before they run."""
        active = self.active()
        rows = [self.rows[index] for index in active]
        _share_refresh(rows)
        plans = {index: row.plan() for index, row in zip(active, rows, strict=True)}
        planned(plans)
        windows = [window for plan in plans.values() for window in plan]
        storages: list[KVStorage | None] = [self.storages[index] for index, plan in plans.items() for _ in plan]
        results = iter(self.runner.forward(windows, storages))
        for index, plan in plans.items():
            row = self.rows[index]
            row.apply(row.decide([next(results) for _ in plan]).cpu())


def _share_refresh(rows: list[Row]) -> None:
    """Fast-dLLM v2's batches recompute whole blocks as soon as one row needs it."""
    blocks = [row for row in rows if isinstance(row, BlockDecoder)]
    denoising = [row for row in blocks if row.stage[1] < row.block_length // row.sub_block_length]
    refresh = any(row.needs_refresh() for row in denoising)
    for row in denoising:
        row.refresh = refresh


def _columns(row: Row) -> int:
    length = row.block_length if isinstance(row, BlockDecoder) else 1
    return -(-row.end // length) * length


def _paddings(case: Case) -> list[int]:
    masks = case.get("attention_mask", [])
    return [mask.index(1) for mask in masks] if masks else [0] * len(case["prompt_ids"])


def _compare_canvases(replay: _Replay, call: Case, paddings: list[int], index: int) -> None:
    present = range(len(replay.rows))
    if len(call["canvas"]) < len(replay.rows):  # finished rows were dropped from the batch
        present = [i for i in present if replay.rows[i].finished is None]
    for number, recorded in zip(present, call["canvas"], strict=True):
        row, recorded = replay.rows[number], recorded[paddings[number] :]
        stop = row.stop_slot()
        if row.finished and stop is not None:
            recorded = recorded[: stop + 1]  # batches fill what follows with padding
        ours = row.feed(0, len(recorded)).tolist()
        if ours != recorded:
            slot = next(i for i, (a, b) in enumerate(zip(ours, recorded, strict=True)) if a != b)
            raise Mismatch(f"before pass {index} row {number} differs at slot {slot}: {ours[slot]}, recorded "
                           f"{recorded[slot]}")  # fmt: skip


def _compare_input(plans: dict[int, list[Window]], call: Case, paddings: list[int], index: int) -> None:
    fed = call.get("input_ids", call["canvas"])
    if len(fed) < len(paddings):
        return  # a batch that rows have left: the canvases were compared
    for number, plan in plans.items():
        for branch, window in enumerate(plan):
            recorded = fed[number + branch * len(paddings)]
            recorded = recorded[paddings[number] :] if window.start == 0 else recorded
            recorded = recorded[: window.ids.shape[0]] if window.phase == "write" else recorded
            if window.ids.tolist() != recorded:
                raise Mismatch(
                    f"pass {index} feeds {window.ids.shape[0]} tokens, recorded are {len(recorded)}, or others"
                )


def _left_open(case: Case, model: LoadedModel) -> bool:
    """True if the published sampler gave up with slots of a fixed canvas still masked."""
    return model.spec.decoder == "full" and any(model.mask_token_id in row for row in case["output_ids"])


def _compare_output(row: Row, recorded: list[int], case: Case, model: LoadedModel) -> None:
    stop = row.stop_slot()
    if model.spec.name == "fast_dllm_v2" and stop is not None:
        recorded = recorded[: stop + 1]
    start = row.canvas.answer_start if model.spec.name == "llada2_moe" else 0  # its sampler returns the answer alone
    ours = row.feed(start, start + len(recorded)).tolist()
    if _left_open(case, model):
        expect(row.canvas.is_filled(), "slots are left open")
        recorded = [a if b == model.mask_token_id else b for a, b in zip(ours, recorded, strict=True)]
    expect(ours == recorded, f"output {ours}, recorded {recorded}")


def _without_quirk(model: LoadedModel, recorded: dict[str, Any], case: Case) -> str:
    outcomes: list[list[Tensor]] = []
    for scheme in (None, "none"):
        rows = build_rows(model, recorded, case, scheme=scheme)
        replay = _Replay(model, rows)
        while replay.active():
            replay.step(lambda plans: None)
        outcomes.append([row.canvas.ids for row in rows])
        expect(all(row.canvas.is_filled() for row in rows), "slots are left open")
    same = all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))
    expect(same, "with and without cache differ")
    return f"not reproduced: {case['quirk']}; ours is equal with and without cache"
