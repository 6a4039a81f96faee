"""Does diffusion decoding pay? The roofline of a model on a machine, from its config alone."""

from anyorder.plan.machine import Machine
from anyorder.plan.presets import MACHINES
from anyorder.plan.roofline import Pass, Roofline
from anyorder.plan.sizes import Sizes

__all__ = ["MACHINES", "Machine", "Pass", "Roofline", "Sizes"]
