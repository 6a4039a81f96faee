"""loss.png: the curve of a run's log."""

from __future__ import annotations

from pathlib import Path

from anyorder.errors import DataError, MissingExtra
from anyorder.training import log


def plot_loss(log_file: Path, target: Path) -> None:
    """Draw the loss and the learning rate over the steps.

    Args:
        log_file: of a run (log.jsonl).
        target: of the picture; its suffix says the format.
    Raises:
        MissingExtra: matplotlib is not installed.
        DataError: the log holds no step.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the loss plot needs matplotlib: pip install 'anyorder[plot]'") from None
    records = log.read(log_file)
    if not records:
        raise DataError(f"{log_file} holds no logged step; train first")
    steps = [record["step"] for record in records]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    losses = figure.add_subplot()
    losses.plot(steps, [record["loss"] for record in records], linewidth=1)
    losses.set(xlabel="step", ylabel="loss, nats per token")
    losses.grid(alpha=0.3)
    rates = losses.twinx()
    rates.plot(steps, [record["lr"] for record in records], linewidth=1, color="tab:gray", alpha=0.6)
    rates.set_ylabel("learning rate")
    figure.savefig(target, dpi=120)
