"""`anyorder` as a model of lm-eval: `python -m anyorder.evaluation.harness run --model anyorder --tasks ...`.

Everything behind the program's name goes to lm-eval's own command line, which then knows one more model. Its
`--model_args` are those of `HarnessModel`.
"""

# pyright: reportMissingImports=false, reportUntypedClassDecorator=false, reportUntypedBaseClass=false
# (lm-eval is no part of the development environment: it brings half a hundred packages)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from anyorder.api import generate_batch, load
from anyorder.errors import MissingExtra, ModelError, ParameterError
from anyorder.evaluation.answers import ThinkEnd, check_think_end, graded
from anyorder.evaluation.likelihoods import Likelihoods
from anyorder.params import DecodeParams

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

try:
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
    from tqdm import tqdm
except ImportError:
    raise MissingExtra("lm-eval is not installed: pip install 'anyorder[lm-eval]'") from None

_LOAD = ("dtype", "device", "revision", "quantize", "offline")
_SAMPLING = ("temperature", "top_p", "top_k", "seed")


@register_model("anyorder")
class HarnessModel(LM):
    """Scores and writes with a local model.

    Args:
        source: as in `anyorder.load`; left out, the default model.
        scoring: causal, left_to_right, pseudo_likelihood or monte_carlo; see `Likelihoods`.
        samples: random maskings of a text in monte_carlo.
        batch_size: texts that are written at once.
        think_end_token: what ends the reasoning in texts that are written, as text or as a token's id or string; what
            stands before it is not graded.
        arguments: `dtype`, `device`, `revision`, `quantize` and `offline` of `load`; all others are decode parameters,
            such as `policy`, `threshold` and `block_length`.
    """

    def __init__(
        self,
        source: str | None = None,
        *,
        scoring: Any = None,
        samples: int = 128,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
        think_end_token: ThinkEnd = None,
        **arguments: Any,
    ) -> None:
        super().__init__()
        loading = {name: arguments.pop(name) for name in _LOAD if arguments.get(name) is not None}
        if str(loading.get("device", "")).startswith("cuda") and not torch.cuda.is_available():
            del loading["device"]  # lm-eval asks for cuda:0 when nobody asked for anything
        arguments = {name: value for name, value in arguments.items() if value is not None}
        self.params = DecodeParams.of(None, **arguments)
        self.likelihoods = Likelihoods(model=load(source, **loading), mode=scoring, samples=int(samples))
        tokenizer = self.likelihoods.model.tokenizer
        if tokenizer is None:
            raise ModelError(f"{self.likelihoods.model.source} has no tokenizer, and tasks are text")
        self.words = tokenizer
        self.think_end = check_think_end(think_end_token, tokenizer)
        if not str(batch_size).isdigit() or int(batch_size) < 1:
            raise ParameterError(f"batch_size must be a number from 1, got {batch_size!r}", param="batch_size")
        self.batch_size = int(batch_size)

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """See `LM.loglikelihood`."""
        found: list[tuple[float, bool]] = []
        for request in tqdm(requests, desc="log-likelihoods"):
            found.append(self.likelihoods.of(*self.likelihoods.split(*request.args)))
            self.cache_hook.add_partial("loglikelihood", request.args, found[-1])
        return found

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """See `LM.loglikelihood_rolling`."""
        found: list[float] = []
        for request in tqdm(requests, desc="texts"):
            found.append(self.likelihoods.rolling(request.args[0]))
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, found[-1])
        return found

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """See `LM.generate_until`; requests with the same arguments are written together."""
        written: list[str] = [""] * len(requests)
        with tqdm(total=len(requests), desc="answers") as bar:
            for numbers in _batches([request.args[1] for request in requests], self.batch_size):
                arguments = requests[numbers[0]].args[1]
                prompts = [requests[number].args[0] for number in numbers]
                answers = generate_batch(self.likelihoods.model, prompts, self._params(arguments))
                for number, answer in zip(numbers, answers, strict=True):
                    written[number] = graded(answer, self.words, arguments.get("until"), self.think_end)
                    self.cache_hook.add_partial("generate_until", requests[number].args, written[number])
                bar.update(len(numbers))
        return written

    def _params(self, arguments: dict[str, Any]) -> DecodeParams:
        """Those of a task go before the model's."""
        changes = {name: arguments[name] for name in _SAMPLING if arguments.get(name) is not None}
        if not arguments.get("do_sample", bool(changes.get("temperature"))):
            changes = {name: value for name, value in changes.items() if name == "seed"} | {"temperature": 0.0}
        if (longest := arguments.get("max_gen_toks")) is not None:
            changes["max_new_tokens"] = int(longest)
        return self.params.replace(**changes)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The template's text; its control tokens would be read as plain text, so it is refused."""
        raise ParameterError(
            "chats are not text here: control tokens in a text are never read as such; serve the model with `anyorder "
            "serve` and use lm-eval's local-chat-completions",
            param="apply_chat_template",
        )


def _batches(arguments: Sequence[dict[str, Any]], size: int) -> Iterator[list[int]]:
    """Numbers of neighbouring requests with equal arguments, at most `size` of them."""
    batch: list[int] = []
    for number, each in enumerate(arguments):
        if batch and (len(batch) == size or arguments[batch[0]] != each):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
