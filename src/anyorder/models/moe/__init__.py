"""Mixture of experts: which experts a token goes to, and their products over the tokens of a pass."""

from __future__ import annotations

from anyorder.models.moe.config import MoeConfig as MoeConfig
from anyorder.models.moe.layer import SparseMLP as SparseMLP
from anyorder.models.moe.router import Blocks as Blocks
