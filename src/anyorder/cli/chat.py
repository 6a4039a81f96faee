"""`anyorder chat`: a conversation in the terminal."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyorder.cli.decoding import load_model, show_answer
from anyorder.cli.flags import DECODE_FLAGS, LOAD_FLAGS, Flag, takes, thinking_flag
from anyorder.cli.preset import PRESET_FLAGS, with_preset
from anyorder.cli.prompt import check_text, has_chat_template
from anyorder.cli.terminal import err_console, print_error
from anyorder.errors import AnyorderError, ModelError, ParameterError
from anyorder.params import DecodeParams

if TYPE_CHECKING:
    from anyorder import ChatSession

NAME = "chat"
HELP = """Talk with a model; what it has read stays in its cache between turns.

In the conversation: [bold]/reset[/] forgets it, [bold]/system TEXT[/] sets the system message and starts anew,
[bold]/help[/], [bold]/quit[/]. Ctrl-C stops an answer, Ctrl-D leaves.
"""
EXAMPLES = """[bold]Examples[/]

anyorder chat

anyorder chat --system "You answer in one sentence." --temperature 0.7 --top-p 0.9

anyorder chat --model ./SDAR-1.7B-Chat --policy low_confidence_dynamic --threshold 0.85
"""
COMMANDS = "/reset  /system TEXT  /help  /quit   Ctrl-C stops an answer, Ctrl-D leaves"
CHAT_FLAGS = (
    Flag(name="system", type=str, metavar="TEXT", panel="Chat", help="System message of the chat template."),
    thinking_flag("Chat"),
    Flag(name="no_live", type=bool, panel="Chat", help="Plain text, no canvas."),
)


@takes(chat=CHAT_FLAGS, load=LOAD_FLAGS, preset=PRESET_FLAGS, params=DECODE_FLAGS)
def command(*, chat: dict[str, Any], preset: dict[str, Any], params: dict[str, Any], load: dict[str, Any]) -> None:
    """Loads the model, then reads lines until the end of the input."""
    import anyorder

    with suppress(ImportError):
        import_module("readline")  # gives input() its editing and history
    decode_params = DecodeParams.of(**with_preset(params, **preset))
    check_text(chat.get("system", ""))
    model = load_model(load)
    if not has_chat_template(model):
        raise ModelError(f"{model.source} has no chat template; use anyorder generate --raw")
    session = anyorder.ChatSession(model, decode_params, system=chat.get("system"), thinking=chat.get("thinking"))
    err_console().print(COMMANDS, style="dim")
    while (line := read_line()) is not None:
        if not answer_line(session, line.strip(), animate="no_live" not in chat):
            return


def read_line() -> str | None:
    """The next line; None at the end of the input. Ctrl-C at the prompt only clears the line."""
    while True:
        try:
            return input("\n> " if sys.stdin.isatty() else "")
        except KeyboardInterrupt:
            err_console().print("(Ctrl-D or /quit leaves)", style="dim")
        except EOFError:
            if sys.stdin.isatty():
                err_console().print()  # the shell's prompt belongs on a line of its own
            return None


def answer_line(session: ChatSession, line: str, *, animate: bool) -> bool:
    """Do what a line says; False if it says to leave. A failed turn is told and the conversation goes on."""
    try:
        if line.startswith("/"):
            return obey(session, line)
        if line:
            check_text(line)
            show_answer(session.send(line), session.model, animate=animate)
    except KeyboardInterrupt:
        err_console().print("(stopped)", style="dim")
    except AnyorderError as error:
        print_error(str(error))
    return True


def obey(session: ChatSession, line: str) -> bool:
    """Run a /command; False if it is the one to leave."""
    name, _, rest = line.partition(" ")
    match name:
        case "/quit" | "/exit":
            return False
        case "/reset":
            session.reset()
        case "/system":
            session.system = rest.strip() or None
            session.reset()
        case "/help":
            err_console().print(COMMANDS, style="dim")
        case _:
            raise ParameterError(f"unknown command {name}; known: /help, /quit, /reset, /system TEXT")
    return True
