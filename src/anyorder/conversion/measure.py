"""What is measured of a conversion, prompt by prompt: every task is small, so that a stopped report can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from anyorder.conversion.decoding import Answer, answer, any_order, causal, refusal
from anyorder.conversion.heldout import HeldOut
from anyorder.conversion.likelihood import Document, causal_score, masked_scores, same_logits
from anyorder.errors import ModelError, ParameterError
from anyorder.models.loaded import LoadedModel
from anyorder.params import Draft
from anyorder.reporting.journal import Record
from anyorder.reporting.similarity import common_prefix, edit_similarity, repetition

THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
DRAFTS: tuple[str, ...] = tuple(draft for draft in get_args(Draft) if draft not in ("auto", "block"))

Records = Mapping[str, Mapping[str, Record]]
"""Section -> prompt id -> what was measured, as it stands in report.json."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A converted model, and the autoregressive one that it comes from.

    Raises:
        ModelError: the model has no mask token.
        ParameterError: the two cannot be compared, or a setting is out of range.
        ContextError: a prompt and its answer do not fit.
    """

    model: LoadedModel
    base: LoadedModel
    """The same object where the model is measured by itself."""
    prompts: Sequence[HeldOut]
    max_new_tokens: int = 160
    thresholds: Sequence[float] = THRESHOLDS

    def __post_init__(self) -> None:
        _check_pair(self.model, self.base)
        if not self.prompts:
            raise ParameterError("there are no held-out prompts; give at least one", param="prompts")
        for threshold in self.thresholds:
            any_order(self.model, threshold=threshold, max_new_tokens=self.max_new_tokens)
        for prompt in self.prompts:
            _check_tokens(self.base, self.model, prompt)
            refused = refusal(self.base, prompt.prompt_ids, causal(self.max_new_tokens))
            if refused is not None:
                raise ParameterError(f"prompt {prompt.id!r} cannot be answered: {refused}", param="prompts")


def _check_pair(model: LoadedModel, base: LoadedModel) -> None:
    if model.mask_token_id is None:
        raise ModelError(
            f"{model.source} has no mask token, so it cannot denoise and there is nothing to report; give the id of a "
            "token to serve as the mask with mask_token_id"
        )
    if "causal" not in base.spec.modes:
        raise ParameterError(
            f"a report compares with the autoregressive model that was converted, and {base.source} is none "
            f"({base.spec.title}); name it with `base`",
            param="base",
        )
    if base.config.vocab_size > model.config.vocab_size:  # a new mask token may have made it larger
        raise ParameterError(
            f"`base` {base.source} has {base.config.vocab_size} tokens and {model.source} {model.config.vocab_size}, "
            "so they cannot be compared; name the model that it was made from",
            param="base",
        )


def _check_tokens(base: LoadedModel, model: LoadedModel, prompt: HeldOut) -> None:
    ids = list(prompt.prompt_ids)
    if base.tokenizer is None or model.tokenizer is None or base.tokenizer.decode(ids) == model.tokenizer.decode(ids):
        return
    raise ParameterError(
        f"the tokens of {model.source} mean something else to `base` {base.source}; name the model that it was made "
        "from",
        param="base",
    )


@dataclass(frozen=True, kw_only=True)
class Section:
    """One kind of measurement."""

    name: str
    title: str
    measure: Callable[[Subject, HeldOut, Records], Record]
    """What is measured of one prompt; it may read what the sections before it measured."""
    needs: Literal["causal", "any-order"] | None = None
    """Mode of the converted model that it is about."""

    def refuses(self, subject: Subject) -> str | None:
        """Why it cannot be measured on this model; None if it can."""
        spec = subject.model.spec
        if self.needs == "causal" and "causal" not in spec.modes:
            return f"{spec.title} has no causal mode"
        if self.needs == "any-order" and spec.modes == ("causal",):
            return f"{spec.title} decodes from left to right only"
        return None


@dataclass(frozen=True)
class Task:
    """One section of one prompt."""

    section: Section
    prompt: HeldOut


def tasks(subject: Subject, records: Records) -> Iterator[Task]:
    """All that is not in `records` yet, in an order in which every task finds what it reads."""
    for section in SECTIONS:
        if section.refuses(subject) is None:
            for prompt in subject.prompts:
                if prompt.id not in records.get(section.name, {}):
                    yield Task(section, prompt)


def _base_answer(subject: Subject, prompt: HeldOut, records: Records) -> Record:
    got = answer(subject.base, prompt.prompt_ids, causal(subject.max_new_tokens))
    return {**asdict(got), **_quality(subject, prompt, got)}


def _documents(prompt: HeldOut, records: Records) -> dict[str, Document]:
    """What is scored: the base's own greedy answer, and the one that a person wrote."""
    texts = {"own": tuple(records["base"][prompt.id]["ids"]), "written": prompt.answer_ids}
    return {name: Document(prompt.prompt_ids, ids) for name, ids in texts.items() if ids}


def _perplexity(subject: Subject, prompt: HeldOut, records: Records) -> Record:
    documents = _documents(prompt, records)
    scores = {
        name: {"before": asdict(causal_score(subject.base, d)), "after": asdict(causal_score(subject.model, d))}
        for name, d in documents.items()
    }
    compared = [same_logits(subject.base, subject.model, document) for document in documents.values()]
    tokens = sum(len(d.prompt_ids) + len(d.answer_ids) for d in documents.values())
    return {"texts": scores, "bit_identical": all(compared), "compared_tokens": tokens}


def _masked(subject: Subject, prompt: HeldOut, records: Records) -> Record:
    texts: Record = {}
    for name, document in _documents(prompt, records).items():
        scores = masked_scores(subject.model, document)
        texts[name] = {
            "by_ratio": [{"ratio": ratio, **asdict(score)} for ratio, score in scores.by_ratio.items()],
            "by_depth": [asdict(score) for score in scores.by_depth],
        }
    return {"texts": texts}


def _lossless(subject: Subject, prompt: HeldOut, records: Records) -> Record:
    """Every draft, one behind the other, so that a pair of times is taken under the same load of the machine; each
    comes first in turn."""
    found: Record = dict.fromkeys(DRAFTS)
    turn = subject.prompts.index(prompt) % len(DRAFTS)
    for draft in DRAFTS[turn:] + DRAFTS[:turn]:
        params = causal(subject.max_new_tokens, draft)
        refused = refusal(subject.model, prompt.prompt_ids, params)
        found[draft] = {"refused": refused} if refused else asdict(answer(subject.model, prompt.prompt_ids, params))
    return found


def _thresholds(subject: Subject, prompt: HeldOut, records: Records) -> Record:
    expected = records["base"][prompt.id]["ids"]
    found: Record = {}
    for threshold in subject.thresholds:
        params = any_order(subject.model, threshold=threshold, max_new_tokens=subject.max_new_tokens)
        got = answer(subject.model, prompt.prompt_ids, params)
        likeness = {"prefix": common_prefix(got.ids, expected), "similarity": edit_similarity(got.ids, expected)}
        found[f"{threshold:g}"] = {**asdict(got), **_quality(subject, prompt, got), **likeness}
    return found


def _quality(subject: Subject, prompt: HeldOut, got: Answer) -> Record:
    """What the base says about a text, and how much it repeats itself."""
    score = causal_score(subject.base, Document(prompt.prompt_ids, got.ids))
    return {"under_base": asdict(score), "repetition": repetition(got.ids)}


SECTIONS = (
    Section(name="base", title="the base's answers", measure=_base_answer),
    Section(name="perplexity", title="causal perplexity", measure=_perplexity, needs="causal"),
    Section(name="masked", title="masked cross-entropy", measure=_masked, needs="any-order"),
    Section(name="lossless", title="lossless decoding", measure=_lossless, needs="causal"),
    Section(name="threshold", title="threshold decoding", measure=_thresholds, needs="any-order"),
)
