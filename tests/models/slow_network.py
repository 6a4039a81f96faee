"""A transformer written down once more: token by token, head by head, in float64, from tensors by published names.

It shares nothing with `anyorder.models`: neither how a config is read, nor where tensors lie, nor the order of sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Experts:
    """The experts of a network and how a token gets to them."""

    dense: tuple[bool, ...]
    """Layers that have none."""
    count: int
    top_k: int
    score: Literal["softmax", "sigmoid"]
    normalised: bool = False
    scaling: float = 1.0
    bias: bool = False
    bias_weighs: bool = False
    groups: int = 1
    top_groups: int = 1
    size: int = 6
    shared: int = 0
    """Inner width of the experts that every token goes to."""
    per_block: int | None = None


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """What a network looks like."""

    vocabulary: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    rotary: int
    theta: float
    eps: float
    tied: bool
    qk_norm: bool = False
    biases: bool = False
    experts: Experts | None = None
    block: int = 4
    """Tokens of a block, of attention and of shared experts."""


@dataclass(frozen=True, kw_only=True)
class Names:
    """Published names; those of a layer come behind `layer`, weights lack `.weight`."""

    embed: str = "model.embed_tokens"
    norm: str = "model.norm"
    head: str = "lm_head"
    layer: str = "model.layers"
    attention_norm: str = "input_layernorm"
    q: str = "self_attn.q_proj"
    k: str = "self_attn.k_proj"
    v: str = "self_attn.v_proj"
    qkv: str = ""
    out: str = "self_attn.o_proj"
    q_norm: str = "self_attn.q_norm"
    k_norm: str = "self_attn.k_norm"
    mlp_norm: str = "post_attention_layernorm"
    gate: str = "mlp.gate_proj"
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"
    router: str = "mlp.gate"
    bias: str = "mlp.gate.expert_bias"
    experts: str = "mlp.experts"
    shared: str = "mlp.shared_experts"


HF = Names()
LLADA = Names(
    embed="model.transformer.wte",
    norm="model.transformer.ln_f",
    head="model.transformer.ff_out",
    layer="model.transformer.blocks",
    attention_norm="attn_norm",
    q="q_proj",
    k="k_proj",
    v="v_proj",
    out="attn_out",
    mlp_norm="ff_norm",
    gate="ff_proj",
    up="up_proj",
    down="ff_out",
)
LLADA_MOE = replace(HF, bias="mlp.expert_bias", shared="shared_expert")
LLADA2 = replace(
    HF,
    embed="model.word_embeddings",
    qkv="attention.query_key_value",
    out="attention.dense",
    q_norm="attention.query_layernorm",
    k_norm="attention.key_layernorm",
)


@dataclass(frozen=True)
class Slow:
    """One network.

    Args:
        tensors: by published name.
    """

    sketch: Sketch
    names: Names
    tensors: Mapping[str, Tensor]

    def logits(self, ids: Sequence[int], sees: Tensor) -> Tensor:
        """[T] ids, [T, T] bool -> [T, V] logits."""
        table = self._tensor(self.names.embed)
        x = [table[token] for token in ids]
        for layer in range(self.sketch.layers):
            at = f"{self.names.layer}.{layer}."
            x = [before + mixed for before, mixed in zip(x, self._attention(at, x, sees), strict=True)]
            normed = [self._normed(at + self.names.mlp_norm, row) for row in x]
            x = [before + row for before, row in zip(x, self._mlps(at, layer, normed), strict=True)]
        head = table if self.sketch.tied else self._tensor(self.names.head)
        return torch.stack([head @ self._normed(self.names.norm, row) for row in x])

    def _tensor(self, name: str) -> Tensor:
        return self.tensors[f"{name}.weight"].double()

    def _normed(self, name: str, x: Tensor) -> Tensor:
        return x / math.sqrt(float((x * x).mean()) + self.sketch.eps) * self._tensor(name)

    @classmethod
    def drawn(cls, sketch: Sketch, names: Names, seed: int) -> Slow:
        """One with random tensors, all that a checkpoint of it holds."""
        generator = torch.Generator().manual_seed(seed)
        tensors = {
            name: torch.randn(shape, generator=generator) * (0.2 if len(shape) > 1 else 1.0)
            for name, shape in shapes(sketch, names)
        }
        return cls(sketch, names, tensors)

    # ------------------------------------------------------------ attention

    def _attention(self, at: str, x: list[Tensor], sees: Tensor) -> list[Tensor]:
        q, k, v = zip(*[self._heads(at, row, position) for position, row in enumerate(x)], strict=True)
        rows = list[Tensor]()
        for i in range(len(x)):
            seen = [j for j in range(len(x)) if sees[i, j]]
            heads = list[Tensor]()
            for head in range(self.sketch.heads):
                group = head * self.sketch.kv_heads // self.sketch.heads
                scores = [float(q[i][head] @ k[j][group]) / math.sqrt(self.sketch.head_dim) for j in seen]
                weights = [math.exp(score - max(scores)) for score in scores]
                heads.append(
                    sum((w / sum(weights) * v[j][group] for w, j in zip(weights, seen, strict=True)), torch.zeros(()))
                )
            rows.append(self._tensor(at + self.names.out) @ torch.cat(heads))
        return rows

    def _heads(self, at: str, x: Tensor, position: int) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        normed, s = self._normed(at + self.names.attention_norm, x), self.sketch
        q, k, v = self._projected(at, normed)
        if s.qk_norm:
            q = [self._normed(at + self.names.q_norm, head) for head in q]
            k = [self._normed(at + self.names.k_norm, head) for head in k]
        return [self._turned(head, position) for head in q], [self._turned(head, position) for head in k], v

    def _projected(self, at: str, x: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        s = self.sketch
        if self.names.qkv:
            flat = list((self._tensor(at + self.names.qkv) @ x).split(s.head_dim))
        else:
            flat = list[Tensor]()
            for name in (self.names.q, self.names.k, self.names.v):
                product = self._tensor(at + name) @ x
                if s.biases:
                    product = product + self.tensors[f"{at}{name}.bias"].double()
                flat += product.split(s.head_dim)
        return flat[: s.heads], flat[s.heads : s.heads + s.kv_heads], flat[s.heads + s.kv_heads :]

    def _turned(self, head: Tensor, position: int) -> Tensor:
        numbers, half = head.tolist(), self.sketch.rotary // 2
        for pair in range(half):
            angle = position * self.sketch.theta ** (-pair / half)
            a, b = float(head[pair]), float(head[pair + half])
            numbers[pair] = a * math.cos(angle) - b * math.sin(angle)
            numbers[pair + half] = b * math.cos(angle) + a * math.sin(angle)
        return torch.tensor(numbers, dtype=torch.float64)

    # ------------------------------------------------------------ MLP

    def _mlps(self, at: str, layer: int, x: list[Tensor]) -> list[Tensor]:
        e = self.sketch.experts
        if e is None or e.dense[layer]:
            return [self._swiglu(at, (self.names.gate, self.names.up, self.names.down), row) for row in x]
        scores = [self._scores(at, row) for row in x]
        offsets = self.tensors[at + self.names.bias].tolist() if e.bias else [0.0] * e.count
        ranked = [[score + offset for score, offset in zip(row, offsets, strict=True)] for row in scores]
        rows = list[Tensor]()
        for i, row in enumerate(x):
            chosen = self._chosen(ranked, i)
            weights = [(ranked if e.bias_weighs else scores)[i][expert] for expert in chosen]
            total = sum(weights) if e.normalised else 1.0
            mixed = sum(
                (
                    e.scaling * w / total * self._expert(at, expert, row)
                    for w, expert in zip(weights, chosen, strict=True)
                ),
                torch.zeros(()),
            )
            rows.append(mixed + self._leaf(at + self.names.shared, row) if e.shared else mixed)
        return rows

    def _scores(self, at: str, x: Tensor) -> list[float]:
        raw = (self._tensor(at + self.names.router) @ x).tolist()
        assert self.sketch.experts is not None
        if self.sketch.experts.score == "sigmoid":
            return [1 / (1 + math.exp(-number)) for number in raw]
        return [math.exp(number) / sum(map(math.exp, raw)) for number in raw]

    def _chosen(self, ranked: list[list[float]], token: int) -> list[int]:
        e, own = self.sketch.experts, ranked[token]
        assert e is not None
        pool = list(range(e.count))
        if e.per_block is not None:
            block = token // self.sketch.block
            near = [row for at, row in enumerate(ranked) if at // self.sketch.block == block]
            pool = sorted(pool, key=lambda expert: -max(row[expert] for row in near))[: e.per_block]
        elif e.groups > 1:
            size = e.count // e.groups
            groups = [pool[start : start + size] for start in range(0, e.count, size)]
            groups.sort(key=lambda group: -sum(sorted((own[expert] for expert in group), reverse=True)[:2]))
            pool = [expert for group in groups[: e.top_groups] for expert in group]
        return sorted(pool, key=lambda expert: -own[expert])[: e.top_k]

    def _expert(self, at: str, expert: int, x: Tensor) -> Tensor:
        return self._leaf(f"{at}{self.names.experts}.{expert}", x)

    def _leaf(self, prefix: str, x: Tensor) -> Tensor:
        return self._swiglu("", _leaves(prefix), x)

    def _swiglu(self, at: str, names: tuple[str, str, str], x: Tensor) -> Tensor:
        gate, up, down = (self._tensor(at + name) for name in names)
        opened = gate @ x
        return down @ (opened / (1 + torch.exp(-opened)) * (up @ x))


def shapes(sketch: Sketch, names: Names) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor of a checkpoint, under its whole name."""
    yield f"{names.embed}.weight", (sketch.vocabulary, sketch.hidden)
    yield f"{names.norm}.weight", (sketch.hidden,)
    if not sketch.tied:
        yield f"{names.head}.weight", (sketch.vocabulary, sketch.hidden)
    for layer in range(sketch.layers):
        parts = itertools.chain(_attention_shapes(sketch, names), _mlp_shapes(sketch, names, layer))
        yield from ((f"{names.layer}.{layer}.{name}", shape) for name, shape in parts)


def _attention_shapes(sketch: Sketch, names: Names) -> Iterator[tuple[str, tuple[int, ...]]]:
    q, kv = sketch.heads * sketch.head_dim, sketch.kv_heads * sketch.head_dim
    projections = {names.qkv: q + 2 * kv} if names.qkv else {names.q: q, names.k: kv, names.v: kv}
    for name, size in projections.items():
        yield f"{name}.weight", (size, sketch.hidden)
        if sketch.biases:
            yield f"{name}.bias", (size,)
    yield f"{names.out}.weight", (sketch.hidden, q)
    yield f"{names.attention_norm}.weight", (sketch.hidden,)
    if sketch.qk_norm:
        yield f"{names.q_norm}.weight", (sketch.head_dim,)
        yield f"{names.k_norm}.weight", (sketch.head_dim,)


def _mlp_shapes(sketch: Sketch, names: Names, layer: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{names.mlp_norm}.weight", (sketch.hidden,)
    e = sketch.experts
    if e is None or e.dense[layer]:
        mlps = {(names.gate, names.up, names.down): sketch.inner}
    else:
        yield f"{names.router}.weight", (e.count, sketch.hidden)
        if e.bias:
            yield names.bias, (e.count,)
        mlps = {_leaves(f"{names.experts}.{expert}"): e.size for expert in range(e.count)}
        mlps |= {_leaves(names.shared): e.shared} if e.shared else {}
    for (gate, up, down), inner in mlps.items():
        yield f"{gate}.weight", (inner, sketch.hidden)
        yield f"{up}.weight", (inner, sketch.hidden)
        yield f"{down}.weight", (sketch.hidden, inner)


def _leaves(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}.gate_proj", f"{prefix}.up_proj", f"{prefix}.down_proj"
