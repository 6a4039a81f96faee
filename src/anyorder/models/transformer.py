"""One transformer: RMS norm, rotary positions, grouped-query attention, SwiGLU or experts.

It maps packed tokens to hidden states and knows nothing of requests, windows or caches: `Attend` does.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.config import ModelConfig
from anyorder.models.linear import Linear, PackedLinear
from anyorder.models.moe import Blocks, SparseMLP
from anyorder.models.norm import rms_norm
from anyorder.models.rope import query_scale, rotate, rotation


class Attend(Protocol):
    """Attention over whatever the caller keeps: called once per layer with rotated q and k, layers in order."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        """q [Tq, H, D], k and v [T, Hkv, D] -> [Tq, H, D].

        Tq is T, except in the last layer, where it is the number of wanted rows and may be 0 (the keys and values
        may still have to be stored; the result is then not used).
        """
        ...


class Changes(Protocol):
    """What one forward adds to a network; `anyorder.models.adapter.Adapted` is one."""

    def embed(self, ids: Tensor, x: Tensor, /) -> Tensor:
        """The input embeddings x [T, hidden] of ids [T] -> [T, hidden]."""
        ...

    def add(self, layer: int, product: str, x: Tensor, y: Tensor, /) -> Tensor:
        """y [T, out], a layer's product ("qkv", "out", "gate_up" or "down") of x [T, in] -> [T, out]."""
        ...

    def among(self, rows: Tensor, /) -> Changes:
        """The same for some of the tokens, [R] int64."""
        ...


class Turn(NamedTuple):
    """What positions do to queries and keys; made once per pass and shared by all layers."""

    cos: Tensor
    sin: Tensor  # see `rotation`
    query_scale: Tensor | None  # see `query_scale`


class Embedding(nn.Module):
    """Table lookup; ids [T] int64 -> [T, hidden]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.vocab_size, config.hidden_size))

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight)


class MappedEmbedding(nn.Module):
    """Lookup in a memory-mapped checkpoint: only the touched pages become resident.

    Args:
        table: [V, hidden] on the CPU in the checkpoint's dtype, backed by the file; never written.
        dtype: of the result.
    """

    def __init__(self, table: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.table = table  # not a buffer: `state_dict` and `to` must not touch the file
        self.dtype = dtype

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.table).to(self.dtype)


class Layer(nn.Module):
    """Attention and MLP (or experts) with their norms and residual additions."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.index = index
        self.eps = config.rms_norm_eps
        self.head = (config.head_dim,)
        self.heads = (config.num_heads, config.num_kv_heads)
        # `split_with_sizes` below: `split` goes through Python and costs 2 µs more, four times a layer
        self.split = (config.query_size + config.kv_size, config.kv_size)
        self.inner = (inner, inner)
        self.attention_norm = nn.Parameter(torch.ones(hidden))
        self.qkv = Linear(hidden, config.query_size + 2 * config.kv_size, bias=config.qkv_bias)
        self.query_norm = nn.Parameter(torch.ones(config.head_dim)) if config.qk_norm else None
        self.key_norm = nn.Parameter(torch.ones(config.head_dim)) if config.qk_norm else None
        self.out = Linear(config.query_size, hidden)
        self.mlp_norm = nn.Parameter(torch.ones(hidden))
        self.moe = SparseMLP(hidden, config.moe) if config.moe is not None and config.moe.layers[index] else None
        if self.moe is None:
            self.gate_up = Linear(hidden, 2 * inner)
            self.down = Linear(inner, hidden)

    def forward(
        self,
        x: Tensor,
        turn: Turn,
        attend: Attend,
        rows: Tensor | None,
        adapted: Changes | None,
        blocks: Blocks | None = None,
    ) -> Tensor:
        """x [T, hidden] -> [T, hidden], or [R, hidden] when only `rows` are wanted."""
        q, k, v = self._project(x, turn, adapted)
        if rows is not None:
            q, x = q[rows], x[rows]
            adapted = adapted and adapted.among(rows)
        mixed = attend(self.index, q, k, v)
        if not x.shape[0]:  # nothing wanted: the caller only stores keys and values
            return x
        x = x + self._product("out", mixed.reshape(x.shape[0], -1), adapted)
        normed = rms_norm(x, self.mlp_norm, self.eps)
        return x + (self._dense(normed, adapted) if self.moe is None else self.moe(normed, blocks))

    def _dense(self, x: Tensor, adapted: Changes | None) -> Tensor:
        gate, up = self._product("gate_up", x, adapted).split_with_sizes(self.inner, -1)
        return self._product("down", F.silu(gate) * up, adapted)

    def _product(self, name: str, x: Tensor, adapted: Changes | None) -> Tensor:
        y: Tensor = getattr(self, name)(x)
        return y if adapted is None else adapted.add(self.index, name, x, y)

    def _project(self, x: Tensor, turn: Turn, adapted: Changes | None) -> tuple[Tensor, Tensor, Tensor]:
        normed = rms_norm(x, self.attention_norm, self.eps)
        qk, v = self._product("qkv", normed, adapted).split_with_sizes(self.split, -1)
        qk = qk.view(x.shape[0], -1, *self.head)  # queries and keys are rotated together
        if self.query_norm is not None and self.key_norm is not None:
            q, k = qk.split_with_sizes(self.heads, 1)
            qk = torch.cat((rms_norm(q, self.query_norm, self.eps), rms_norm(k, self.key_norm, self.eps)), 1)
        q, k = rotate(qk, turn.cos, turn.sin).split_with_sizes(self.heads, 1)
        if turn.query_scale is not None:
            q = q * turn.query_scale
        return q, k, v.view(x.shape[0], -1, *self.head)


class Transformer(nn.Module):
    """Token ids to hidden states, hidden states to logits; the parameters are uninitialised until loaded."""

    embed: Embedding | MappedEmbedding
    output: Linear | PackedLinear

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = Embedding(config)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.num_layers))
        self.norm = nn.Parameter(torch.ones(config.hidden_size))
        self.output = Linear(config.hidden_size, config.vocab_size)
        if config.tie_word_embeddings:
            self.output.weight = self.embed.weight

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        attend: Attend,
        rows: Tensor | None = None,
        adapted: Changes | None = None,
        blocks: Blocks | None = None,
    ) -> Tensor:
        """Hidden states after the final norm.

        The last layer computes attention, output projection and MLP only for the wanted rows; that is exact, since
        nothing else is read. Where tokens share experts all rows are computed: which ones they share depends on every
        one of them.

        Args:
            ids, positions: [T] int64 on the network's device.
            attend: called once per layer.
            rows: [R] int64 indices into ids; None: all.
            adapted: an adapter of this network and the tokens that it is on for; the others are as without it.
            blocks: of tokens that share experts; needed where the config says that they do (`MoeConfig.block_experts`).
        Returns:
            [R, hidden]
        """
        x = self.embed(ids)
        if adapted is not None:
            x = adapted.embed(ids, x)
        turn = Turn(*rotation(self.config, positions, x.dtype), query_scale(self.config, positions, x.dtype))
        last = -1 if self.config.shares_experts else len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            x = layer(x, turn, attend, rows if index == last else None, adapted, blocks)
        if rows is not None and self.config.shares_experts:
            x = x[rows]
        return rms_norm(x, self.norm, self.config.rms_norm_eps)

    def head(self, hidden: Tensor) -> Tensor:
        """[R, hidden] -> logits [R, vocab]; float32, or float64 for a float64 network."""
        if not hidden.shape[0]:
            return hidden.new_empty((0, self.config.vocab_size), dtype=_logits_dtype(hidden.dtype))
        return self.output(hidden).to(_logits_dtype(hidden.dtype))

    def soften(self, probabilities: Tensor) -> Tensor:
        """Expected input embeddings: [n, V] -> [n, hidden]."""
        table = self.embed.table if isinstance(self.embed, MappedEmbedding) else self.embed.weight
        return (probabilities.to(table.dtype) @ table).to(self.dtype)

    @property
    def device(self) -> torch.device:
        return self.norm.device

    @property
    def dtype(self) -> torch.dtype:
        return self.norm.dtype


def _logits_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
