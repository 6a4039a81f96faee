"""Images over HTTP: read as Python reads them, counted, kept apart, and never a reason to fail."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from PIL import Image as Pil
from tests.models import pictures
from tests.models.pictures import SPELT, painted, write_talking
from tests.server.live import Live, live
from tests.server.test_operations import eventually
from tests.server.test_refusals import refused
from tests.test_images import bomb, truncated

import anyorder
from anyorder.canvas import count_slots
from anyorder.models.loaded import LoadedModel
from anyorder.pictures import Picture
from anyorder.prompt import encode_prompt
from anyorder.server.backend import IMAGE_READERS
from anyorder.server.settings import ServerSettings
from anyorder.server.wire.images import SentImage
from anyorder.serving import Service, ServiceSettings, Ticket, Work

pytest.importorskip("transformers.models.diffusion_gemma")
ROOM = ServiceSettings(kv_bytes=1 << 24)
MOST = ServerSettings().max_images


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = tmp_path_factory.mktemp("seeing")
    write_talking(folder)
    return anyorder.load(folder, dtype="float32")


@pytest.fixture(scope="module")
def seeing(model: LoadedModel) -> Generator[Live]:
    """A server of a model that reads images."""
    with live(model, ServerSettings(name="seeing"), engine=ROOM) as server:
        yield server


def png(image: Pil.Image | None = None, kind: str = "PNG", **options: Any) -> bytes:
    buffer = BytesIO()
    (image or painted(40, 30)).save(buffer, kind, **options)
    return buffer.getvalue()


def url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def shown(data: bytes | str, **fields: Any) -> dict[str, Any]:
    """A part with an image, of its bytes or with any URL."""
    return {"type": "image_url", "image_url": {"url": data if isinstance(data, str) else url(data), **fields}}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def user(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


def post(server: Live, path: str, **body: Any) -> Any:
    with server.http() as http:
        return http.post(path, json={"model": server.model, **body})


def test_an_answer_is_that_of_python(seeing: Live, model: LoadedModel) -> None:
    cat = painted(40, 30)
    messages = user(text("see"), {"type": "image", "image": cat}, text("this"))
    own = anyorder.generate(model, messages, max_new_tokens=8, steps=2, temperature=0.5, seed=3)
    sent = {"max_tokens": 8, "temperature": 0.5, "seed": 3, "diffusion": {"steps": 2}}
    parts = (text("see"), shown(png(cat), detail="auto"), text("this"))
    chat = seeing.chat(messages=user(*parts), **sent).json()
    assert chat["choices"][0]["message"]["content"] == own.text
    assert chat["usage"]["prompt_tokens"] == count_slots(encode_prompt(model, messages))
    bare = [parts[0], {"type": "image_url", "image_url": url(png(cat))}, parts[2]]
    assert seeing.chat(messages=user(*bare), **sent).json()["choices"] == chat["choices"]
    items = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": url(png(cat)), "detail": "auto", "file_id": None},
        {"type": "input_text", "text": "this"},
    ]
    del sent["max_tokens"]
    answer = post(seeing, "/v1/responses", input=user(*items), max_output_tokens=8, **sent).json()
    assert answer["output"][0]["content"][0]["text"] == own.text
    assert answer["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]


def test_the_official_client_sends_images(seeing: Live) -> None:
    client = seeing.client()
    messages: Any = user(text("see"), shown(png()))
    chunks = client.chat.completions.create(
        model=seeing.model, messages=messages, max_tokens=4, stream=True, stream_options={"include_usage": True}
    )
    *_, last = chunks
    assert last.usage is not None
    assert last.usage.prompt_tokens > 20
    parts: Any = user({"type": "input_image", "image_url": url(png()), "detail": "auto"})
    assert client.responses.create(model=seeing.model, input=parts, max_output_tokens=4).usage


def test_the_same_image_is_read_once_and_another_one_never_taken_for_it(seeing: Live) -> None:
    """Both have the same ids; guards against a kept prefix that does not depend on what is in an image."""

    def cached(image: Pil.Image) -> int:
        chat = seeing.chat(messages=user(shown(png(image)), text("What is this?")), max_tokens=4).json()
        return chat["usage"]["prompt_tokens_details"]["cached_tokens"]

    one, other = painted(300, 300, 5), painted(300, 300, 6)
    assert cached(one) < 20
    assert cached(one) > 60
    assert cached(other) < 20
    assert cached(other) > 60


def test_a_conversation_goes_on_behind_an_image(seeing: Live, model: LoadedModel) -> None:
    cat = painted(60, 30, 7)
    turns = [{"role": "assistant", "content": "A cat."}, {"role": "user", "content": "Sure?"}]
    chat = seeing.chat(messages=[*user(shown(png(cat)), text("What?")), *turns], max_tokens=4).json()
    own = [*user({"type": "image", "image": cat}, text("What?")), *turns]
    assert chat["usage"]["prompt_tokens"] == count_slots(encode_prompt(model, own))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_formats_that_are_read(seeing: Live, kind: str) -> None:
    """Whatever the URL says it is."""
    assert seeing.chat(messages=user(shown(png(kind=kind))), max_tokens=2).status_code == 200


def test_five_megabytes_are_read(seeing: Live) -> None:
    data = png(Pil.frombytes("RGB", (1300, 1300), os.urandom(1300 * 1300 * 3)))
    assert len(data) > 5_000_000
    assert seeing.chat(messages=user(shown(data)), max_tokens=2).status_code == 200


def test_a_moving_gif_is_its_first_frame(seeing: Live, model: LoadedModel) -> None:
    frames = [painted(40, 30, seed).quantize(8) for seed in range(50)]
    moving = png(frames[0], "GIF", save_all=True, append_images=frames[1:])
    counted = seeing.chat(messages=user(shown(moving)), max_tokens=2).json()["usage"]["prompt_tokens"]
    first = user({"type": "image", "image": frames[0].convert("RGB")})
    assert counted == count_slots(encode_prompt(model, first))


@pytest.mark.parametrize("spelt", SPELT)
def test_who_spells_an_image_gets_letters(seeing: Live, spelt: str) -> None:
    def counted(words: str) -> int:
        chat = seeing.chat(messages=user(text(words), shown(png())), max_tokens=2)
        return chat.json()["usage"]["prompt_tokens"]

    assert counted(f"a{spelt}b") == counted("ab") + len(spelt.encode())


def test_an_answer_whose_reasoning_was_closed_still_has_its_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on as a new request; guards against one whose picture is nothing but ids."""
    monkeypatch.setattr(pictures, "TEMPLATE", pictures.TEMPLATE.replace("<|turn>model\n", "<|turn>model\n<think>"))
    write_talking(tmp_path)
    handed: list[Work] = []
    submit = Service.submit

    def submitted(self: Service, work: Any) -> Ticket:
        handed.append(work)
        return submit(self, work)

    monkeypatch.setattr(Service, "submit", submitted)
    settings = ServerSettings(name="thinking", reasoning_parser="think")
    with live(anyorder.load(tmp_path, dtype="float32"), settings, engine=ROOM) as server:
        messages = user(shown(png()), text("a"))
        answer = server.chat(messages=messages, max_tokens=32, thinking_budget=2, ignore_eos=True)
    assert answer.status_code == 200
    first, second = handed
    assert any(isinstance(part, Picture) for part in first.prompt)
    assert list(second.prompt[: len(first.prompt)]) == list(first.prompt)
    assert len(second.prompt) > len(first.prompt)


WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "http": (lambda: shown("http://169.254.169.254/x.png"), ".image_url.url", "fetches no URLs; send the bytes"),
    "https, bare": (
        lambda: {"type": "image_url", "image_url": "https://example.org/cat.png"}, ".image_url", "fetches no URLs"),
    "a file": (lambda: shown("file:///etc/passwd"), ".image_url.url", "fetches no URLs"),
    "a path": (lambda: shown("/etc/passwd"), ".image_url.url", "fetches no URLs"),
    "nothing": (lambda: shown(""), ".image_url.url", "fetches no URLs"),
    "text": (lambda: shown("data:text/html;base64,PGI+"), ".image_url.url", "something else than an image in base64"),
    "percents": (lambda: shown("data:image/svg+xml,%3Csvg/%3E"), ".image_url.url", "something else"),
    "no data": (lambda: shown("data:image/png;base64,"), ".image_url.url", "cannot be read as an image"),
    "no comma": (lambda: shown("data:image/png;base64"), ".image_url.url", "cannot be read as an image"),
    "no base64": (lambda: shown("data:image/png;base64,§§§§"), ".image_url.url", "is no base64"),
    "half of it": (lambda: shown("data:image/png;base64,iVBOR"), ".image_url.url", "is no base64"),
    "a local path in base64": (lambda: shown(b"/etc/passwd"), ".image_url.url", "cannot be read as an image"),
    "svg": (lambda: shown(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), ".image_url.url", "cannot be read as an im"),
    "postscript": (lambda: shown(b"%!PS-Adobe-3.0 EPSF-3.0\n"), ".image_url.url", "formats are PNG"),
    "html that ends like a png": (lambda: shown(b"<script>" + png()), ".image_url.url", "cannot be read as an image"),
    "cut off": (lambda: shown(truncated()), ".image_url.url", "cannot be read as an image"),
    "a bomb": (lambda: shown(bomb()), ".image_url.url", "64,000,000 pixels"),
    "no pixels": (lambda: shown(png().replace(b"\0\0\0\x28\0\0\0\x1e", b"\0" * 8, 1)), ".image_url.url", "image"),
    "a line": (lambda: shown(png(Pil.new("RGB", (9000, 1)))), "", "9000 x 1"),
    "detail low": (lambda: shown(png(), detail="low"), ".image_url.detail", "leave it out or use 'auto'"),
    "detail high": (lambda: shown(png(), detail="high"), ".image_url.detail", "leave it out or use 'auto'"),
    "a number": (lambda: {"type": "image_url", "image_url": {"url": 5}}, ".image_url.url", "string"),
    "no url": (lambda: {"type": "image_url"}, ".image_url", "missing"),
    "another field": (lambda: shown(png(), size=3), ".image_url.size", "unknown parameter"),
    "sound": (lambda: {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}, "", "text or image_url"),
    "a strange type": (lambda: {"type": ["image_url"]}, "", "text or image_url"),
    "no part": (lambda: 7, "", "text or image_url"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_image_is_refused(seeing: Live, name: str) -> None:
    make, place, message = WRONG[name]
    error = refused(seeing.chat(messages=user(text("a"), shown(png()), make())))
    assert message in error["message"]
    assert error["param"] == ("messages" if name == "a line" else f"messages[0].content[2]{place}")
    assert "0x" not in error["message"]


@pytest.mark.parametrize(
    ("part", "place", "message"),
    [
        ({"image_url": "http://169.254.169.254/"}, ".image_url", "fetches no URLs"),
        ({"image_url": url(bomb())}, ".image_url", "64,000,000 pixels"),
        ({"image_url": "data:image/png;base64,*"}, ".image_url", "is no base64"),
        ({"image_url": url(png()), "detail": "high"}, ".detail", "use 'auto'"),
        ({"file_id": "file-1"}, ".image_url", "missing"),
        ({"image_url": url(png()), "file_id": "file-1"}, ".file_id", "None"),
    ],
)
def test_responses_name_their_own_parameters(seeing: Live, part: Any, place: str, message: str) -> None:
    items = user({"type": "input_text", "text": "a"}, {"type": "input_image", **part})
    error = refused(post(seeing, "/v1/responses", input=items))
    assert error["param"] == f"input[0].content[1]{place}"
    assert message in error["message"]
    assert "messages[" not in error["message"]
    items[0]["role"] = "system"
    items[0]["content"][1] = {"type": "input_image", "image_url": url(png())}
    assert refused(post(seeing, "/v1/responses", input=items))["param"] == "input[0].content[1]"


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_only_users_show_images(seeing: Live, role: str) -> None:
    error = refused(seeing.chat(messages=[{"role": role, "content": [shown(png())]}, *user(text("a"))]))
    assert error["param"] == "messages[0].content[0]"
    assert "role 'user'" in error["message"]


def test_how_many_images_a_request_may_have(seeing: Live) -> None:
    small = shown(png(painted(8, 8)))
    assert seeing.chat(messages=user(*[small] * MOST), max_tokens=2).status_code == 200
    error = refused(seeing.chat(messages=[*user(text("a")), *user(*[small] * MOST), *user(small)]))
    assert (error["param"], error["code"]) == ("messages[2].content[0]", "too_many_images")
    assert f"at most {MOST}" in error["message"]
    assert refused(seeing.chat(messages=user(*[small] * 3000)))["code"] == "too_many_images"


def test_how_many_parts_a_request_may_have(seeing: Live) -> None:
    """Guards against contents whose checking holds up the streams of others."""
    many = user(*[text("")] * 4000, shown(png()))
    assert seeing.chat(messages=many, max_tokens=2).status_code == 200
    error = refused(seeing.chat(messages=many * 70))
    assert error["param"] == "messages"
    assert "280070 parts in all; this server reads at most 4096" in error["message"]
    items = user(*[{"type": "input_text", "text": ""}] * 5000)
    assert refused(post(seeing, "/v1/responses", input=items))["param"] == "input"


def test_what_is_told_of_text_only(seeing: Live) -> None:
    messages = user(text("a"), shown(png()))
    scored = refused(seeing.chat(messages=messages, logprobs=True, logprobs_mode="causal"))
    assert scored["param"] == "logprobs_mode"
    assert seeing.chat(messages=messages, logprobs=True, max_tokens=2).status_code == 200
    seams = refused(seeing.chat(messages=messages, stream_format="events", seams=True))
    assert seams["param"] == "seams"


def test_a_body_that_is_too_large_says_so(model: LoadedModel) -> None:
    with live(model, ServerSettings(name="seeing", max_body_bytes=4000), engine=ROOM) as server:
        assert refused(server.chat(messages=user(shown(png()))), 413)["code"] == "body_too_large"


def test_a_model_of_text_names_what_it_lacks(letters: Live) -> None:
    for part in (shown(png()), shown("http://169.254.169.254/"), shown("data:")):
        error = refused(letters.chat(messages=user(text("a"), part)))
        assert (error["param"], error["code"]) == ("messages[0].content[1]", "unsupported_by_model")
        assert "takes no image input; send text" in error["message"]
        assert "(family " in error["message"]


def test_models_say_what_they_read(seeing: Live, letters: Live) -> None:
    with seeing.http() as http:
        assert http.get("/v1/models/seeing").json()["input_modalities"] == ["text", "image"]
    with letters.http() as http:
        assert http.get("/v1/models").json()["data"][0]["input_modalities"] == ["text"]


def test_a_prompt_that_waits_for_its_image_keeps_nobody_waiting(seeing: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are read beside the event loop, some at a time, and texts need not queue behind them."""
    go_on, reading = Event(), list[int]()
    kept = SentImage.read

    def read(self: SentImage) -> Pil.Image:
        reading.append(1)
        assert go_on.wait(30)
        return kept(self)

    monkeypatch.setattr(SentImage, "read", read)
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(seeing.chat, messages=user(shown(png())), max_tokens=2) for _ in range(IMAGE_READERS + 2)]
        try:
            assert eventually(lambda: len(reading) == IMAGE_READERS)
            assert seeing.chat(messages=user(text("a")), max_tokens=2).status_code == 200
            assert len(reading) == IMAGE_READERS
        finally:
            go_on.set()
        assert [answer.result().status_code for answer in slow] == [200] * len(slow)


def test_logs_hold_no_image(seeing: Live, caplog: pytest.LogCaptureFixture) -> None:
    data = png(painted(33, 44, 9))
    with caplog.at_level("INFO", logger="anyorder.server"):
        assert seeing.chat(messages=user(shown(data)), max_tokens=2).status_code == 200
        refused(seeing.chat(messages=user(shown(data[:300]))))
    assert len(caplog.records) == 2
    assert all(len(json.dumps(record.getMessage())) < 1000 for record in caplog.records)
