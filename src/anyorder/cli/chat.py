"""`anyorder chat`: a conversation in the terminal."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.cli.decoding import load_model, show_answer
from anyorder.cli.files import read_image
from anyorder.cli.flags import DECODE_FLAGS, LOAD_FLAGS, Flag, takes, thinking_flag
from anyorder.cli.preset import PRESET_FLAGS, with_preset
from anyorder.cli.prompt import check_text, content_of, has_chat_template
from anyorder.cli.terminal import err_console, print_error
from anyorder.errors import AnyorderError, ModelError, ParameterError
from anyorder.images import Image
from anyorder.params import DecodeParams

if TYPE_CHECKING:
    from anyorder import ChatSession

NAME = "chat"
HELP = """Talk with a model; what it has read stays in its cache between turns.

In the conversation: [bold]/reset[/] forgets it, [bold]/system TEXT[/] sets the system message and starts anew,
[bold]/image FILE[/] shows an image with your next message, [bold]/help[/], [bold]/quit[/]. Ctrl-C stops an answer,
Ctrl-D leaves.
"""
EXAMPLES = """[bold]Examples[/]

anyorder chat

anyorder chat --system "You answer in one sentence." --temperature 0.7 --top-p 0.9

anyorder chat --model ./SDAR-1.7B-Chat --policy low_confidence_dynamic --threshold 0.85
"""
COMMANDS = "/reset  /system TEXT  /image FILE  /help  /quit   Ctrl-C stops, Ctrl-D leaves"
CHAT_FLAGS = (
    Flag(name="system", type=str, metavar="TEXT", panel="Chat", help="System message of the chat template."),
    Flag(name="image", type=list[Path], metavar="FILE", panel="Chat",
         help="Show an image with the first message, to a model that reads images. Repeat it for more."),
    thinking_flag("Chat"),
    Flag(name="no_live", type=bool, panel="Chat", help="Plain text, no canvas."),
)  # fmt: skip


@takes(chat=CHAT_FLAGS, load=LOAD_FLAGS, preset=PRESET_FLAGS, params=DECODE_FLAGS)
def command(*, chat: dict[str, Any], preset: dict[str, Any], params: dict[str, Any], load: dict[str, Any]) -> None:
    """Loads the model, then reads lines until the end of the input."""
    import anyorder

    with suppress(ImportError):
        import_module("readline")  # gives input() its editing and history
    decode_params = DecodeParams.of(**with_preset(params, **preset))
    check_text(chat.get("system", ""))
    images = [read_image(path) for path in chat.get("image", ())]
    model = load_model(load)
    if not has_chat_template(model):
        raise ModelError(f"{model.source} has no chat template; use anyorder generate --raw")
    session = anyorder.ChatSession(model, decode_params, system=chat.get("system"), thinking=chat.get("thinking"))
    talk = Talk(session, animate="no_live" not in chat)
    for image in images:
        talk.show(image)
    err_console().print(COMMANDS, style="dim")
    while (line := read_line()) is not None:
        if not talk.answer_line(line.strip()):
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


@dataclass
class Talk:
    """A session, and the images that go with its next message."""

    session: ChatSession
    animate: bool
    images: list[Image] = field(default_factory=list[Image])

    def show(self, image: Image) -> None:
        """Keep an image for the next message.

        Raises:
            ParameterError, ModelError: the model cannot read it.
        """
        from anyorder.prompt import encode_prompt

        encode_prompt(self.session.model, [image])
        self.images.append(image)

    def answer_line(self, line: str) -> bool:
        """Do what a line says; False if it says to leave. A failed turn is told and the conversation goes on."""
        try:
            if line.startswith("/"):
                return self.obey(line)
            if line:
                check_text(line)
                content, self.images = content_of(line, self.images), []
                show_answer(self.session.send(content), self.session.model, animate=self.animate)
        except KeyboardInterrupt:
            err_console().print("(stopped)", style="dim")
        except AnyorderError as error:
            print_error(str(error))
        return True

    def obey(self, line: str) -> bool:
        """Run a /command; False if it is the one to leave."""
        name, _, rest = line.partition(" ")
        match name:
            case "/quit" | "/exit":
                return False
            case "/reset":
                self.begin()
            case "/system":
                self.session.system = rest.strip() or None
                self.begin()
            case "/image" if rest.strip():
                self.show(read_image(Path(rest.strip()).expanduser()))
                err_console().print("(goes with your next message)", style="dim")
            case "/image":
                raise ParameterError("/image needs a file: /image cat.png")
            case "/help":
                err_console().print(COMMANDS, style="dim")
            case _:
                raise ParameterError(f"unknown command {name}; known: /help, /quit, /reset, /system TEXT, /image FILE")
        return True

    def begin(self) -> None:
        """Forget the conversation, and images that were to be shown."""
        self.session.reset()
        self.images = []
