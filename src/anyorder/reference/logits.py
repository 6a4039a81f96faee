"""Recorded logits of single forward situations, with and without caches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from anyorder.models.attention import attend_alone
from anyorder.models.gemma.network import DiffusionGemma
from anyorder.models.loaded import LoadedModel
from anyorder.reference.outcome import Mismatch, expect
from anyorder.runner import Runner, attention_mask
from anyorder.window import Attention, Window

TOLERANCE = 2e-4  # float32 on a CPU: twice the rounding floor of the recorded checkpoints

Case = dict[str, Tensor]


def read(folder: Path) -> dict[str, Case]:
    """The cases of `logits.safetensors`: name -> field -> tensor."""
    path = folder / "logits.safetensors"
    cases: dict[str, Case] = {}
    for key, tensor in (load_file(path) if path.is_file() else {}).items():
        name, field = key.split(".", 1)
        cases.setdefault(name, {})[field] = tensor
    return cases


def check(model: LoadedModel, case: Case) -> str:
    """Compare one case.

    Raises:
        Mismatch: logits differ by more than the tolerance, or the situation is not known.
    """
    if "block_input_ids" in case:
        return _canvas_cache(model, case)
    if "canvas_ids" in case:
        return _canvas_of_noise(model, case)
    if "prefix_length" in case:
        return _block_cache(model, case)
    if "timesteps" in case and case["logits"].shape[1] < case["input_ids"].shape[1]:
        two = case["input_ids"].shape[1] == 2 * case["logits"].shape[1]
        return _two_streams(model, case) if two else _block_by_block(model, case)
    return _uncached(model, case)


def _compare(ours: Tensor, recorded: Tensor, what: str = "logits") -> str:
    difference = float((ours.cpu().double() - recorded.double()).abs().max())
    expect(difference < TOLERANCE, f"{what} differ by {difference:.1e}, allowed is {TOLERANCE:.0e}")
    return f"{what} within {difference:.1e}"


def _window(
    model: LoadedModel, ids: Tensor, *, start: int = 0, visible: int | None = None, block: int = 1, stores: bool = True
) -> Window:
    attention: Attention = model.spec.attention
    return Window(
        ids=ids,
        start=start,
        visible=start + ids.shape[0] if visible is None else visible,
        rows=torch.arange(ids.shape[0]),
        attention=attention,
        block_length=block,
        stores=stores,
    )


@torch.inference_mode()
def _uncached(model: LoadedModel, case: Case) -> str:
    ids = case["input_ids"]
    block = int(case.get("block_size", case.get("block_length", model.block_length or 1)))
    recorded_mask = case.get("attention_mask", torch.ones_like(ids))
    padding = recorded_mask if recorded_mask.dim() == 2 else torch.ones_like(ids)
    if recorded_mask.dim() == 3:
        block = _block_of(recorded_mask[0])
        mask = attention_mask(_window(model, ids[0], block=block))
        expect(mask is not None and bool((mask == recorded_mask[0].bool()).all()), "attention masks differ")
    kept = [row[keep.bool()] for row, keep in zip(ids, padding, strict=True)]
    windows = [_window(model, row, block=block, stores=False) for row in kept]
    rows = Runner(model.network).forward(windows, [None] * len(windows))
    recorded = [row[keep.bool()] for row, keep in zip(case["logits"], padding, strict=True)]
    return _compare(torch.cat(rows), torch.cat(recorded))


@torch.inference_mode()
def _canvas_of_noise(model: LoadedModel, case: Case) -> str:
    """DiffusionGemma: a canvas behind its prompt, in one pass, or behind a text that was stored in two."""
    network, ids = model.network, case["input_ids"]
    assert isinstance(network, DiffusionGemma)
    runner, padding = Runner(network), case.get("attention_mask", torch.ones_like(ids)).bool()
    found: list[Tensor] = []
    for row, canvas in enumerate(case["canvas_ids"]):
        text, told = ids[row][padding[row]], case.get("self_conditioning_logits")
        soft = None if told is None else network.soften(told[row].to(network.device).softmax(-1))
        storage, start = runner.storage(len(text) + len(canvas)), 0
        if "prompt_length" in case:
            start = len(text)
            cut = int(case["prompt_length"])
            for part, at in ((text[:cut], 0), (text[cut:], cut)):
                runner.forward([_window(model, part, start=at).wanting(torch.empty(0, dtype=torch.int64))], [storage])
        window = replace(
            _window(model, torch.cat([text[start:], canvas]), start=start),
            rows=torch.arange(len(text) - start, len(text) - start + len(canvas)),
            adapted=len(text) - start,
            soft=soft,
        )
        found.append(runner.forward([window], [storage])[0])
    return _compare(torch.stack(found), case["logits"])


@torch.inference_mode()
def _two_streams(model: LoadedModel, case: Case) -> str:
    """BD3-LM's training pass, noised | clean: a noised block sees itself and the clean blocks before it."""
    assert model.block_length is not None
    length = case["logits"].shape[1]
    noised, columns = torch.arange(2 * length) < length, torch.arange(2 * length) % length
    block = columns // model.block_length
    own = (block[:, None] == block) & noised[:, None] & noised
    clean = ~noised & ((block < block[:, None]) | (~noised[:, None] & (block == block[:, None])))
    attend, network = attend_alone((own | clean).to(model.device)), model.network
    positions = columns.to(model.device)
    hidden = [network(ids.to(model.device), positions, attend)[:length] for ids in case["input_ids"]]
    return _compare(torch.stack([network.head(rows) for rows in hidden]), case["logits"])


@torch.inference_mode()
def _block_by_block(model: LoadedModel, case: Case) -> str:
    """Every block stored by itself; the logits of the last one."""
    assert model.block_length is not None
    ids, block, runner = case["input_ids"][0], model.block_length, Runner(model.network)
    storage = runner.storage(ids.shape[0])
    windows = [_window(model, ids[at : at + block], start=at, block=block) for at in range(0, ids.shape[0], block)]
    return _compare([runner.forward([window], [storage])[0] for window in windows][-1], case["logits"][0])


def _block_of(mask: Tensor) -> int:
    """Block length of a recorded block-causal mask: what its first row sees."""
    return int(mask[0].sum())


@torch.inference_mode()
def _canvas_cache(model: LoadedModel, case: Case) -> str:
    """Prefix and dual cache: a full pass, then the columns from the block on, or the block alone."""
    ids, block, start = case["input_ids"][0], case["block_input_ids"][0], int(case["block_start"])
    runner, canvas = Runner(model.network), case["input_ids"].shape[1]
    storage = runner.storage(canvas)
    first = runner.forward([_window(model, ids)], [storage])[0]
    if "logits_first" in case:
        _compare(first, case["logits_first"][0], "logits of the full pass")
    window = _window(model, block, start=start, visible=canvas)
    return _compare(runner.forward([window], [storage])[0], case["logits"][0])


@torch.inference_mode()
def _block_cache(model: LoadedModel, case: Case) -> str:
    """Stored whole blocks, then the next block, and for the sub-block cache a part of it again."""
    ids, prefix = case["input_ids"][0], int(case["prefix_length"])
    length = case.get("block_size", case.get("block_length"))
    if length is None:
        raise Mismatch("the case names no block length")
    block, runner = int(length), Runner(model.network)
    storage, end = runner.storage(ids.shape[0]), prefix + int(length)
    runner.forward([_window(model, ids[:prefix], block=block)], [storage])
    whole = runner.forward([_window(model, ids[prefix:end], start=prefix, block=block)], [storage])[0]
    if "sub_input_ids" not in case:
        return _compare(whole, case["logits"][0])
    sub, start = case["sub_input_ids"][0], prefix + int(case["replace_position"])
    window = _window(model, sub, start=start, visible=end, block=block)
    return _compare(runner.forward([window], [storage])[0], case["logits"][0])
