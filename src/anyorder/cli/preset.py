"""`--preset`: decode parameters that were published under a name, or that a sweep has chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyorder.cli.files import read_text
from anyorder.cli.flags import Flag
from anyorder.errors import ParameterError
from anyorder.params import did_you_mean
from anyorder.policies.presets import PRESETS
from anyorder.sweep.settings_file import parse

PRESET_FLAGS = (
    Flag(name="preset", type=Path, metavar="NAME|FILE.toml", panel="Decoding",
         help=f"Published decode parameters by name ({', '.join(PRESETS)}), or those in the table \\[decoding] of a "
         "file, as `anyorder sweep` writes it; flags go first."),
)  # fmt: skip


def with_preset(params: dict[str, Any], *, preset: Path | None = None) -> dict[str, Any]:
    """The preset's parameters, the user's in place of them.

    Raises:
        DataError: it cannot be read.
        ParameterError: it holds something else than decode parameters.
    """
    if preset is None:
        return params
    if str(preset) in PRESETS:
        return {**PRESETS[str(preset)].params, **params}
    if preset.suffix != ".toml" and not preset.exists():
        raise ParameterError(
            f"unknown preset {str(preset)!r}{did_you_mean(str(preset), list(PRESETS))}", param="preset"
        )
    common, ways = parse(read_text(preset), str(preset), param="preset")
    if ways or not common:
        raise ParameterError(f"{preset} is no preset: it holds a table [decoding] and nothing else", param="preset")
    return {**common, **params}
