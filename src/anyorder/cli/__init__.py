"""The `anyorder` command, one file per subcommand. Nothing here imports torch before a command needs it."""

from __future__ import annotations

from anyorder.cli.app import main

__all__ = ["main"]
