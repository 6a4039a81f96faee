"""Carry a plan out: network, trainer, and the model in the folder of the run."""

from __future__ import annotations

from pathlib import Path

import torch

from anyorder.errors import MissingExtra
from anyorder.models.load import load
from anyorder.models.shift import check_shift
from anyorder.training.distributed import Team
from anyorder.training.plot import plot_loss
from anyorder.training.recipe.build import Facts, objective
from anyorder.training.recipe.card import card
from anyorder.training.recipe.folder import CARD, LOG, LOSS, place_model
from anyorder.training.recipe.network import network_of
from anyorder.training.recipe.plan import Plan
from anyorder.training.recipe.publish import publisher
from anyorder.training.trainer import Outcome, Running, Trainer


def trainer_of(plan: Plan, folder: Path, team: Team, *, progress: bool = False) -> Trainer:
    """The trainer of a plan, its weights read.

    Args:
        folder: of the run; `folder.begin` has made it.
        progress: show a bar where the standard error output is a terminal.
    Raises:
        ModelError: the weights cannot be read.
        ParameterError: the processes cannot share a batch.
    """
    recipe = plan.recipe
    publish = publisher(recipe, plan.found, plan.mask)
    running = Running(
        log_every=recipe.running.log_every,
        save_steps=recipe.running.save_steps,
        save_s=recipe.running.save_s,
        keep=recipe.running.keep,
        recompute=recipe.precision.recompute,
        progress=progress,
    )
    facts = Facts(
        mask_token_id=None if plan.mask is None else plan.mask.token_id,
        vocab_size=plan.vocab_size,
        steps=plan.steps,
    )
    return Trainer(
        network_of(recipe, plan.found, plan.mask, team.device),
        plan.data.rows,
        objective(recipe.objective, facts),
        plan.optimisation,
        folder,
        running,
        team=team,
        publish=publish if recipe.running.models else None,
    )


def read_back(folder: Path, device: torch.device) -> str | None:
    """Load the result as everyone will, and see whether its rows predict what they were trained to.

    Returns:
        what is wrong with it, in one line; None if nothing is.
    Raises:
        ModelError: it cannot be loaded.
    """
    model = load(folder, device=device, verify=False)
    if model.spec.attention == "causal" or model.tokenizer is None:
        return None
    report = check_shift(model)
    if not report.contradicts:
        return None
    rows = {True: "the next token", False: "their own token"}
    return (
        f"trained too little: its rows still predict {rows[not report.declared]} (log-probability of the truth "
        f"{report.shifted:.2f} shifted, {report.unshifted:.2f} not); until then it loads with --no-verify only"
    )


def finish(plan: Plan, trainer: Trainer, outcome: Outcome) -> list[str]:
    """Put the model of a finished run into its folder, with its card and its curve; every process must call it.

    Returns:
        what could not be done and does not matter much, one line each.
    """
    weights = trainer.weights()
    if not trainer.team.leads:
        return []
    folder = trainer.folder
    place_model(folder, publisher(plan.recipe, plan.found, plan.mask), weights)
    (folder / CARD).write_text(card(plan, outcome, folder), "utf-8")
    try:
        plot_loss(folder / LOG, folder / LOSS)
    except MissingExtra as error:
        return [str(error)]
    return []
