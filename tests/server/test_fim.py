"""Fill in the middle as Inception's clients ask for it, byte for byte; what a model cannot fill is refused."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, cast

import httpx2
import openai
import pytest
from tests.cli.scripted import ByteTokenizer, scripted_model
from tests.engine.talk import talking
from tests.server.live import Live, live
from tests.server.test_refusals import refused
from tests.server.test_streams import frames

import anyorder
from anyorder import Hole
from anyorder.errors import ModelError
from anyorder.server.settings import ServerSettings

FIM = "/v1/fim/completions"
EDITOR_STOPS = ["<|endoftext|>", "\n\n", "\r\n\r\n", "/src/", "#- coding: utf-8", "```", "\n\n", "\n \n"]


def continue_fim(model: str, prefix: str, suffix: str) -> dict[str, Any]:
    """The body that Continue's Inception provider posts to `completions`; its JSON leaves undefined options out."""
    return {
        "model": model, "prompt": prefix, "suffix": suffix if suffix.strip() else "<|endoftext|>", "max_tokens": 4,
        "temperature": 0.0, "presence_penalty": 1.5, "stop": EDITOR_STOPS, "stream": True,
    }  # fmt: skip


def posted(server: Live, path: str, **body: Any) -> httpx2.Response:
    with server.http() as http:
        return http.post(path, json={"model": server.model, **body})


@pytest.fixture(scope="module")
def filler() -> Generator[Live]:
    """A server of a model that sees both sides of a gap."""
    with live(talking("llada")) as server:
        yield server


def test_a_gap_is_filled_between_prompt_and_suffix(filler: Live) -> None:
    expected = anyorder.infill(talking("llada"), ["7 8 ", Hole(4), " 9 10"]).holes[0]
    answer = posted(filler, FIM, prompt="7 8 ", suffix=" 9 10", max_tokens=4).json()
    assert (answer["object"], answer["warning"]) == ("text_completion", None)
    assert answer["choices"][0]["text"] == expected
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (4, 4, 8)
    assert (usage["reasoning_tokens"], usage["cached_input_tokens"]) == (0, 0)
    same = posted(filler, "/v1/completions", prompt="7 8 ", suffix=" 9 10", max_tokens=4).json()
    assert same["choices"] == answer["choices"]
    at_the_start = posted(filler, FIM, prompt="", suffix="9 10", max_tokens=4).json()
    assert at_the_start["choices"][0]["text"] == anyorder.infill(talking("llada"), [Hole(4), "9 10"]).holes[0]


def test_a_stream_of_fim_is_one_of_completions(filler: Live) -> None:
    whole = posted(filler, FIM, prompt="7 8 ", suffix=" 9 10", max_tokens=4).json()["choices"][0]["text"]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *pieces, last = frames(posted(filler, FIM, prompt="7 8 ", suffix=" 9 10", max_tokens=4, **options).text)
    assert {piece["object"] for piece in pieces} == {"text_completion"}
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == whole
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 4)


def test_what_is_left_out_is_as_inception_documents_it(letters: Live) -> None:
    context = 512
    usage = posted(letters, FIM, prompt="a").json()["usage"]
    assert usage["completion_tokens"] == context - 1  # 512, but the context has room for one less
    with live(scripted_model("one\n\ntwo")) as server:
        assert posted(server, FIM, prompt="o").json()["choices"][0]["text"] == "ne"
        assert posted(server, FIM, prompt="o", stop=[], max_tokens=7).json()["choices"][0]["text"] == "ne\n\ntwo"
        assert posted(server, FIM, prompt="o", stop="tw", max_tokens=7).json()["choices"][0]["text"] == "ne\n\n"


def test_continue_runs_unchanged(filler: Live, letters: Live) -> None:
    with filler.http() as http:
        body = continue_fim(filler.model, "7 8 ", " 9 10")
        pieces = frames(http.post("/v1/completions", json=body).text)
    text = "".join(piece["choices"][0]["text"] for piece in pieces)
    assert text == anyorder.infill(talking("llada"), ["7 8 ", Hole(4), " 9 10"]).holes[0]
    assert all("presence_penalty 1.5 not applied" in piece["warning"] for piece in pieces)
    with letters.http() as http:  # a blank suffix is sent as a stop token, and means that nothing follows
        pieces = frames(http.post("/v1/completions", json=continue_fim(letters.model, "abc", " \n")).text)
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == "llo "


def test_continue_chats_unchanged(letters: Live) -> None:
    """It sends its penalty with chats, too, and says whether the model predicts edits."""
    mine: dict[str, Any] = {"temperature": 0.0, "presence_penalty": 1.5, "stop": ["<|endoftext|>"], "nextEdit": False}
    assert letters.chat(**mine).json()["warning"].startswith("presence_penalty 1.5 not applied")
    pieces = frames(letters.chat(**mine, stream=True).text)
    assert all(piece["warning"].startswith("presence_penalty 1.5 not applied") for piece in pieces)
    assert letters.chat(nextEdit=True).json()["warning"] is None
    assert refused(letters.chat(presence_penalty=1.5))["param"] == "presence_penalty"


def test_litellm_runs_unchanged(filler: Live) -> None:
    """It points the OpenAI client at `/v1/fim`."""
    client = openai.OpenAI(base_url=f"{filler.url}/v1/fim", api_key="none", max_retries=0)
    asked: Any = {"model": filler.model, "prompt": "7 8 ", "suffix": " 9 10", "max_tokens": 4}
    answer = client.completions.create(**asked, top_p=1, frequency_penalty=0, presence_penalty=1.5, stop=["\n\n"])
    assert answer.choices[0].text == anyorder.infill(talking("llada"), ["7 8 ", Hole(4), " 9 10"]).holes[0]
    assert answer.model_extra is not None
    assert answer.model_extra["warning"].startswith("presence_penalty 1.5 not applied")
    pieces = client.completions.create(**asked, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == answer.choices[0].text


@pytest.mark.parametrize("path", [FIM, "/v1/completions"])
def test_a_model_that_does_not_see_the_suffix_refuses_it(numbers: Live, letters: Live, path: str) -> None:
    for server in (numbers, letters):
        error = refused(posted(server, path, prompt="7 8 ", suffix=" 9", max_tokens=4))
        assert (error["param"], error["code"]) == ("suffix", "unsupported_parameter")
        assert "LLaDA" in error["message"]
        assert posted(server, path, prompt="7 8 ", max_tokens=4).status_code == 200
    forced = posted(numbers, path, prompt="7 8 ", suffix=" 9", max_tokens=4, diffusion={"mode": "block"})
    assert forced.json()["choices"][0]["text"] == anyorder.infill(talking("sdar"), ["7 8 ", Hole(4), " 9"]).holes[0]


class FimTokenizer(ByteTokenizer):
    """Three of the tokens stand for the edges of a gap."""

    def token(self, token_id: int) -> str | None:
        return f"<{token_id}>"

    def token_id(self, token: str) -> int | None:
        return {"<fim_prefix>": 1, "<fim_suffix>": 2, "<fim_middle>": 3, "<|endoftext|>": 4}.get(token)


def test_control_tokens_fill_gaps_where_the_model_was_trained_for_them() -> None:
    model = replace(scripted_model("abcdefg\4hij"), tokenizer=cast(Any, FimTokenizer()))
    prompt = [1, *b"xy", 2, *b"z", 3]
    expected = anyorder.generate(model, prompt, max_new_tokens=9, stop_ids=(4,))
    assert (expected.text, expected.finish_reason) == ("g", "stop")
    with live(model, ServerSettings(fim_tokens=True)) as server:
        answer = posted(server, FIM, prompt="xy", suffix="z", max_tokens=9).json()
        assert (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) == ("g", "stop")
        assert answer["usage"]["prompt_tokens"] == len(prompt)
        going_on = posted(server, FIM, prompt="xy", suffix="z", max_tokens=4, ignore_eos=True).json()
        assert going_on["choices"][0]["text"] == "g\4hi"
        assert posted(server, FIM, prompt="xy", max_tokens=2).json()["choices"][0]["text"] == "cd"
        assert server.client().models.retrieve(server.model).model_extra["infills"] is True  # type: ignore[index]
    with (
        pytest.raises(ModelError, match="the vocabulary has no tokens to fill gaps with"),
        live(scripted_model(), ServerSettings(fim_tokens=True)),
    ):
        pass


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompt": ...}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": ["7"]}, "prompt"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"top_k": 0, "temperature": 1}, "top_k"),
    ({"presence_penalty": 2.5}, "presence_penalty"),
    ({"presence_penalty": "1"}, "presence_penalty"),
    ({"frequency_penalty": True}, "frequency_penalty"),
    ({"repetition_penalty": -1}, "repetition_penalty"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"echo": True}, "echo"),
    ({"logprobs": 1}, "logprobs"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"model": "mercury-9"}, "model"),
]


@pytest.mark.parametrize(("changes", "param"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_parameter_of_fim_is_named(numbers: Live, changes: dict[str, Any], param: str) -> None:
    body = {"prompt": "7 8", **changes}
    answer = posted(numbers, FIM, **{name: value for name, value in body.items() if value is not ...})
    assert refused(answer, 404 if param == "model" else 400)["param"] == param


def test_entries_of_models_have_inceptions_fields(numbers: Live) -> None:
    with numbers.http() as http:
        (entry,) = http.get("/v1/fim/completions/models").json()["data"]
    assert entry["pricing"] == dict.fromkeys(("prompt", "completion", "input_cache_reads", "input_cache_writes"), "0")
    assert (entry["input_modalities"], entry["output_modalities"]) == (["text"], ["text"])
    assert (entry["context_length"], entry["max_output_length"], entry["datacenters"]) == (96, 95, [])
    assert {"temperature", "top_p", "top_k", "seed"} <= set(entry["supported_sampling_parameters"])
    assert isinstance(entry["description"], str)
    assert isinstance(entry["supported_features"], list)
