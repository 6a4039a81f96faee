"""The typer app, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

import anyorder
from anyorder.cli import bench, chat, convert, generate, inspect, models, plan, reference, selftext, serve, sweep, train
from anyorder.cli.terminal import is_debugging, print_error
from anyorder.cli.threads import wait_politely_if_busy
from anyorder.errors import AnyorderError, ParameterError

app = typer.Typer(
    name="anyorder",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anyorder {anyorder.__version__}")
        raise typer.Exit()


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Decode diffusion language models in any order.

    Try it: [bold]anyorder generate "Why is the sky blue?"[/]

    Errors are one line on stderr; the exit code is 2 for a wrong flag or value, 1 for a failure, 130 for Ctrl-C.
    ANYORDER_DEBUG=1 shows tracebacks.
    """


for module in (generate, chat, serve, inspect, models, plan, selftext, train, convert, sweep, reference):
    app.command(module.NAME, help=module.HELP, epilog=module.EXAMPLES)(module.command)
app.add_typer(bench.app, name=bench.NAME)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code."""
    wait_politely_if_busy()
    code = run(args)
    gc.freeze()  # or the interpreter looks for cycles in all of torch before the prompt comes back: half a second
    sys.exit(code)


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        args: without the program's name; None takes those of the process.
    Returns:
        0 success, 1 failure, 2 wrong usage, 130 interrupted.
    """
    try:
        code = app(args, prog_name="anyorder", standalone_mode=False)
        sys.stdout.flush()
        return code or 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its exit
        return 1
    except KeyboardInterrupt:
        return _failed("interrupted", 130)
    except typer.Abort:
        return _failed("interrupted: the input ended", 130)
    except typer.TyperException as error:
        return _failed(error.format_message(), error.exit_code)
    except ParameterError as error:
        return _failed(_with_flag(error), 2)
    except AnyorderError as error:
        return _failed(str(error), 1)
    except OSError as error:
        return _failed(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)
    except Exception as error:  # a defect of ours or of the machine: a line now, the traceback for a report
        return _failed(f"unexpected {type(error).__name__}: {error} (ANYORDER_DEBUG=1 shows where)", 1)


def _with_flag(error: ParameterError) -> str:
    """The message, led by the flag if it does not name it anyhow."""
    flag = f"--{(error.param or '').replace('_', '-')}"
    named = error.param is None or error.param in str(error) or flag in str(error)
    return str(error) if named else f"{flag}: {error}"


def _failed(message: str, code: int) -> int:
    if is_debugging():
        traceback.print_exc()
    if message:  # typer's "no arguments" has shown the help and says nothing more
        print_error(message)
    return code
