"""Images from the command line: before the prompt, in a conversation, in a batch."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli, Loads
from tests.models.pictures import painted, write_talking

import anyorder
from anyorder.cli import generate
from anyorder.models.loaded import LoadedModel
from anyorder.pictures import Picture

pytest.importorskip("transformers.models.diffusion_gemma")
SHORT = ("--max-new-tokens", "6", "--steps", "2")


@pytest.fixture(scope="module")
def seeing_model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = tmp_path_factory.mktemp("seeing")
    write_talking(folder)
    return anyorder.load(folder, dtype="float32")


@pytest.fixture
def seeing(loads: Loads, seeing_model: LoadedModel) -> LoadedModel:
    """Every load gives a model that reads images."""
    loads.model = seeing_model
    return seeing_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command runs, with two images of the same size."""
    monkeypatch.chdir(tmp_path)
    painted(40, 30, 1).save("cat.png")
    painted(40, 30, 2).save("dog with a space.jpg")
    Path("no.png").write_text("no image")
    return tmp_path


def shown(*files: str, text: str) -> list[dict[str, Any]]:
    parts = [*({"type": "image", "image": Path(file)} for file in files), {"type": "text", "text": text}]
    return [{"role": "user", "content": parts}]


def answer(model: LoadedModel, prompt: Any) -> str:
    return anyorder.generate(model, prompt, max_new_tokens=6, steps=2).text


def prompts_of(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Prompts that reach the engine, as they come."""
    seen: list[list[Any]] = []
    begin = anyorder.EventStream.__init__

    def noted(self: anyorder.EventStream, model: LoadedModel, prompts: Any, *args: Any, **kwargs: Any) -> None:
        seen.extend(list(prompt) for prompt in prompts)
        begin(self, model, prompts, *args, **kwargs)

    monkeypatch.setattr(anyorder.EventStream, "__init__", noted)
    return seen


@pytest.mark.usefixtures("folder")
def test_images_stand_before_the_prompt(cli: Cli, seeing: LoadedModel) -> None:
    files = ("cat.png", "dog with a space.jpg")
    result = cli("generate", "Which?", "--image", files[0], "--image", files[1], *SHORT, "--json")
    own = anyorder.generate(seeing, shown(*files, text="Which?"), max_new_tokens=6, steps=2)
    told = json.loads(result.out)
    assert (told["text"], told["prompt_ids"]) == (own.text, list(own.prompt_ids))
    briefed = cli("generate", "Which?", "--image", files[0], "--system", "Be brief.", *SHORT)
    system = {"role": "system", "content": "Be brief."}
    assert briefed.out.strip() == answer(seeing, [system, *shown(files[0], text="Which?")]).strip()


@pytest.mark.usefixtures("folder")
def test_a_bare_prompt_begins_with_its_images(cli: Cli, seeing: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = prompts_of(monkeypatch)
    assert cli("generate", "This is", "--image", "cat.png", "--raw", *SHORT).code == 0
    anyorder.generate(seeing, [anyorder.Image("cat.png"), "This is"], max_new_tokens=6, steps=2)
    ours, own = ([part.keys if isinstance(part, Picture) else part for part in prompt] for prompt in seen)
    assert ours == own


@pytest.mark.usefixtures("folder", "seeing")
def test_the_example_of_the_help_is_accepted(cli: Cli) -> None:
    (line,) = [line for line in generate.EXAMPLES.splitlines() if "--image" in line]
    assert cli(*shlex.split(line)[1:], *SHORT).code == 0


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("generate", "a", "--image", "nowhere.png"), 1, "there is no image at 'nowhere.png'"),
        (("generate", "a", "--image", "no.png"), 1, "the image 'no.png' cannot be read as an image"),
        (("generate", "a", "--image", "."), 1, "cannot be read as an image"),
        (("generate", "a", "--image", "https://example.org/cat.png"), 1, "there is no image at"),
        (("generate", "--image", "cat.png"), 2, "no prompt"),
        (("generate", "a", "--image", "cat.png", "--seams"), 2, "drop one of them"),
        (("generate", "--image", "cat.png", "--input", "a", "--output", "b"), 2, "drop --image"),
        (("chat", "--image", "no.png"), 1, "cannot be read as an image"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_bad_images_are_told_before_a_model_is_loaded(
    cli: Cli, loads: Loads, args: tuple[str, ...], code: int, message: str
) -> None:
    result = cli(*args)
    assert (result.code, result.out, loads.calls) == (code, "", [])
    assert message in " ".join(result.err.split())


@pytest.mark.usefixtures("folder")
def test_a_model_of_text_says_what_it_lacks(cli: Cli) -> None:
    for command in (("generate", "a"), ("generate", "a", "--raw"), ("chat",)):
        result = cli(*command, "--image", "cat.png", stdin=b"a\n")
        assert result.code == 2
        assert "takes no image input" in result.err
    result = cli("chat", "--max-new-tokens", "6", stdin=b"/image cat.png\nHi\n")
    assert "takes no image input" in result.err
    assert result.out  # and the talk goes on, without the image


@pytest.mark.usefixtures("folder")
def test_a_conversation_shows_images(cli: Cli, seeing: LoadedModel) -> None:
    lines = b"/image dog with a space.jpg\nWhich?\nSure?\n"
    result = cli("chat", "--image", "cat.png", *SHORT, stdin=lines)
    assert (result.code, result.err.count("(goes with your next message)")) == (0, 1)
    session = anyorder.ChatSession(seeing, max_new_tokens=6, steps=2)
    first = session.send(shown("cat.png", "dog with a space.jpg", text="Which?")[0]["content"]).generations()[0].text
    second = session.send("Sure?").generations()[0].text
    assert result.out == f"{first}\n{second}\n"


@pytest.mark.usefixtures("folder")
def test_images_are_forgotten_with_the_conversation(cli: Cli, seeing: LoadedModel) -> None:
    plain = answer(seeing, [{"role": "user", "content": "Hi"}])
    seen = answer(seeing, shown("cat.png", text="Hi"))
    result = cli("chat", *SHORT, stdin=b"/image cat.png\n/reset\nHi\n/reset\n/image cat.png\nHi\n/reset\nHi\n")
    assert result.out == f"{plain}\n{seen}\n{plain}\n"


@pytest.mark.usefixtures("folder", "seeing")
def test_a_wrong_image_does_not_end_the_conversation(cli: Cli) -> None:
    result = cli("chat", *SHORT, stdin=b"/image\n/image no.png\n/image nowhere\nHi\n")
    assert result.code == 0
    for message in ("/image needs a file", "'no.png' cannot be read", "there is no image at 'nowhere'"):
        assert message in result.err
    assert result.err.count("tok/s") == 1


def line(*parts: Any, **more: Any) -> str:
    return json.dumps({"messages": [{"role": "user", "content": list(parts)}], **more}) + "\n"


CAT = {"type": "image", "image": "cat.png"}


def run_batch(cli: Cli, content: str) -> Any:
    Path("in").mkdir(exist_ok=True)
    Path("cat.png").rename("in/cat.png")
    Path("in/prompts.jsonl").write_text(content)
    return cli("generate", "--input", "in/prompts.jsonl", "--output", "out.jsonl", *SHORT)


@pytest.mark.usefixtures("folder")
def test_a_batch_finds_images_beside_its_input(cli: Cli, seeing: LoadedModel, folder: Path) -> None:
    dog = {"type": "image", "image": str(folder / "dog with a space.jpg")}
    asked = {"type": "text", "text": "What?"}
    result = run_batch(cli, line(CAT, asked) + line(asked, dog) + line(asked) + '{"prompt": "a"}\n')
    assert result.code == 0, result.err
    answers = {record["id"]: record["text"] for record in map(json.loads, Path("out.jsonl").read_text().splitlines())}
    assert answers[1] == answer(seeing, shown("in/cat.png", text="What?"))
    assert answers[2] == answer(seeing, [{"role": "user", "content": [asked, dog]}])
    assert answers[3] == answer(seeing, [{"role": "user", "content": "What?"}])
    assert len(answers) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (line({"type": "image", "image": "nowhere.png"}), "line 1: there is no image at 'in/nowhere.png'"),
        (line({"type": "image", "image": "."}), "there is no image at"),
        (line({"type": "image_url", "image_url": {"url": "x"}}), "a list of text and image parts"),
        (line({**CAT, "detail": "low"}), "a list of text and image parts"),
        (line({"type": "image", "image": 5}), "a list of text and image parts"),
        (line(), "a list of text and image parts"),
        (line("text"), "a list of text and image parts"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_bad_part_is_named_before_a_model_is_loaded(cli: Cli, loads: Loads, content: str, message: str) -> None:
    result = run_batch(cli, content)
    assert (result.code, loads.calls) == (1, [])
    assert message in result.err


@pytest.mark.usefixtures("folder", "seeing")
def test_a_file_that_is_no_image_is_named_before_the_first_answer(cli: Cli) -> None:
    result = run_batch(cli, line(CAT) + line({"type": "image", "image": "../no.png"}, id="bad"))
    assert result.code == 1
    assert "id 'bad' of the input: the image" in result.err
    assert Path("out.jsonl").read_bytes() == b""


@pytest.mark.usefixtures("folder")
def test_other_commands_read_texts(cli: Cli) -> None:
    """Guards against parts that reach a command which does not look for their files."""
    Path("prompts.jsonl").write_text(line(CAT))
    result = cli("bench", "serve", "--prompts", "prompts.jsonl")
    assert result.code != 0
    assert "both texts" in result.err
