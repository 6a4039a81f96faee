"""`python -m anyorder`: the same as the `anyorder` command."""

from __future__ import annotations

from anyorder.cli import main

main()
