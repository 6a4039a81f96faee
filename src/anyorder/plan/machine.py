"""What a machine can do: how fast it reads memory and how fast it multiplies matrices."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from anyorder.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One accelerator, or the processors of one computer."""

    name: str
    bandwidth: float
    """Bytes per second that are read from memory."""
    matrix_rate: float
    """Operations per second of a large matrix product at the planned number format; a product of [n, k] and [k, m] is
    2nkm."""
    memory: int | None = None
    """Bytes; None: not asked."""
    price: float | None = None
    """Of an hour, in any currency; None: unknown."""
    measured: bool = False
    """By `anyorder plan`; otherwise from a data sheet or as given."""
    attention_rate: float | None = None
    """Operations per second of attention; None: as those of matrix products."""
    products: tuple[tuple[int, float], ...] = ()
    """Measured (rows, seconds per weight) of a product with the model's matrices; empty: the two rates above say it."""
    layer_s: float = 0.0
    """Seconds per layer and pass for everything but products and attention."""
    token_s: float = 0.0
    """Seconds per layer and fed token, likewise."""
    window_s: float = 0.0
    """Seconds per layer and sequence, likewise."""

    def __post_init__(self) -> None:
        for name in ("bandwidth", "matrix_rate"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"`{name}` must be above 0, got {getattr(self, name)!r}", param=name)
        for name in ("memory", "price"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ParameterError(f"`{name}` must be above 0, got {value!r}", param=name)

    def weight_s(self, rows: float, itemsize: float) -> float:
        """Seconds per number of a weight matrix for a product with `rows` rows.

        Args:
            itemsize: bytes of a number.
        """
        if not self.products:
            return max(itemsize / self.bandwidth, 2.0 * rows / self.matrix_rate)
        counts = [count for count, _ in self.products]
        at = bisect_left(counts, rows)
        if at == 0:
            return self.products[0][1]
        if at == len(counts):
            return self.products[-1][1] * rows / counts[-1]
        (low, below), (high, above) = self.products[at - 1], self.products[at]
        return below + (above - below) * (rows - low) / (high - low)

    def save(self, file: Path) -> None:
        """Write it as JSON for `Machine.read`."""
        file.write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")

    @classmethod
    def read(cls, file: Path) -> Machine:
        """Read what `save` wrote, or what somebody wrote by hand.

        Raises:
            ParameterError: there is no such file, or it is no machine.
        """
        try:
            values: Any = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ParameterError(f"cannot read a machine from {file}: {error}", param="machine") from None
        names = {field.name for field in fields(cls)}
        if not isinstance(values, dict) or not {"name", "bandwidth", "matrix_rate"} <= values.keys() <= names:
            raise ParameterError(
                f"{file} must be a JSON object with name, bandwidth and matrix_rate, and no other names than "
                f"{', '.join(sorted(names))}",
                param="machine",
            )
        products = tuple((int(rows), float(seconds)) for rows, seconds in values.pop("products", ()))
        return cls(**values, products=products)
