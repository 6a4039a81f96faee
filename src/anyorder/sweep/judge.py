"""A judge: another model that says how good an answer is."""

from __future__ import annotations

import re

from anyorder.sweep.answer import Answer, Failed
from anyorder.sweep.endpoint import Endpoint, Reply
from anyorder.sweep.items import Grader, Item

MARKS = 10
QUESTION = """You grade an answer. Judge only whether it is right, complete, and well written.

Question:
{question}
{reference}
Answer to grade:
{answer}

Reply with one whole number from 0 (useless) to {marks} (perfect), and nothing else."""
_MARK = re.compile(r"\s*(?:\*\*)?(\d+)(?:\*\*)?(?:\s*/\s*10)?\s*[.]?\s*")


def judged_by(endpoint: Endpoint) -> Grader:
    """A grader that asks an endpoint for a mark from 0 to 10, at temperature 0.

    A reply that is no mark is garbage: it is asked for again, and in the end the answer counts as failed.
    """

    def grade(item: Item, answer: Answer, first: str | None) -> float:
        reference = f"\nA right answer:\n{' or '.join(item.references)}\n" if item.references else ""
        text = QUESTION.format(question=item.text, reference=reference, answer=answer.text, marks=MARKS)
        body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 16}
        try:
            reply = endpoint.ask(body, _fault)
        except Failed as failure:
            raise Failed(f"judge: {failure}", failure.retries) from failure
        mark = _mark(reply)
        assert mark is not None
        return mark / MARKS

    return grade


def _fault(reply: Reply) -> str | None:
    return None if _mark(reply) is not None else f"{reply.text!r} is no mark from 0 to {MARKS}"


def _mark(reply: Reply) -> int | None:
    found = _MARK.fullmatch(reply.text)
    return int(found[1]) if found and int(found[1]) <= MARKS else None
