"""Does a checkpoint hold exactly the tensors that its config.json implies?"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from anyorder.errors import WeightsError
from anyorder.models.load.safetensors import Checkpoint
from anyorder.models.weights import Place

SHOWN = 3
"""Names listed in an error before it only counts."""
HEADS = frozenset({"lm_head.weight", "model.transformer.ff_out.weight"})
"""Output heads by their published names; some exporters write a tied one a second time."""


def check_tensors(
    shapes: Mapping[str, tuple[int, ...]], checkpoint: Checkpoint, *, tied: bool, unused: tuple[str, ...] = ()
) -> None:
    """Compare names and shapes; nothing is read.

    Args:
        shapes: what the architecture needs (`FamilySpec.weight_names`, `FamilySpec.image_shapes`).
        tied: the output head is the embedding table; a copy of it in the file is then allowed.
        unused: beginnings of names that are passed over.
    Raises:
        WeightsError: tensors are missing, unknown or of the wrong shape.
    """
    found = checkpoint.entries
    if missing := [name for name in shapes if name not in found]:
        raise WeightsError(f"{checkpoint.folder}: {_some(missing)} missing from the weights")
    left = [name for name in found if name not in shapes and not name.startswith(unused)]
    if unknown := [name for name in left if not _redundant(name, tied)]:
        raise WeightsError(
            f"{checkpoint.folder}: {_some(unknown)} unknown to this architecture; is config.json theirs?"
        )
    wrong = [
        f"{name} {list(found[name].shape)} instead of {list(shape)}"
        for name, shape in shapes.items()
        if found[name].shape != shape
    ]
    if wrong:
        raise WeightsError(f"{checkpoint.folder}: shapes disagree with config.json: {_some(wrong)}")


def check_tied(places: Mapping[str, Place], checkpoint: Checkpoint) -> None:
    """A tied head that is stored all the same must equal the table.

    Raises:
        WeightsError: it differs, so config.json is wrong.
    """
    table = next(name for name, place in places.items() if place.parameter == "embed.weight")
    for head in HEADS & checkpoint.entries.keys():
        if not torch.equal(checkpoint.tensor(head), checkpoint.tensor(table)):
            raise WeightsError(
                f"{checkpoint.folder}: {head} differs from {table}, which config.json ties; "
                "correct tie_word_embeddings (weight_tying) there"
            )
        checkpoint.release(head)
        checkpoint.release(table)


def _redundant(name: str, tied: bool) -> bool:
    """Tensors that some exporters add and that follow from the rest."""
    return name.endswith("rotary_emb.inv_freq") or (tied and name in HEADS)


def _some(names: list[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
