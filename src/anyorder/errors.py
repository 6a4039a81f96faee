"""The exception family: every error a user can cause is one of these and says what was given, allowed and to be done.

AnyorderError
├── ParameterError (ValueError)     a decode parameter or an argument is wrong; `param` names it
├── ContextError (ValueError)       the request does not fit the model's context
├── ModelError                      a checkpoint cannot be used
│   ├── UnknownFamily               no family in the registry matches config.json
│   ├── WeightsError                tensors are missing, unknown, of the wrong shape, or the file is damaged
│   └── TokenizerMismatch           mask or stop ids disagree with the tokenizer
├── DataError (ValueError)          an input file is damaged; the message names file and line
├── TrainingError                   a training run cannot go on; the message names the step
├── SweepError                      a sweep cannot go on; what it measured is kept
├── ServingError                    a service did not answer a request
│   ├── Overloaded                  its queue is full; try again later
│   ├── Unavailable                 it is not started, is shutting down, or its engine died
│   ├── Cancelled                   the caller gave the request up
│   ├── DeadlineExceeded            the request's time is over
│   └── EngineFailed                the engine failed while the request ran
└── MissingExtra (ImportError)      an optional dependency is not installed; the message has the pip line
"""

from __future__ import annotations


class AnyorderError(Exception):
    """Base of all errors raised on purpose; its text is one line fit for a terminal."""


class ParameterError(AnyorderError, ValueError):
    """A parameter is out of range, unknown, or contradicts another one.

    Args:
        message: what was given, what is allowed, what to do.
        param: name of the offending parameter (the `DecodeParams` field), for the CLI and the server.
    """

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class ContextError(AnyorderError, ValueError):
    """Prompt and answer together are longer than the model's context."""


class ModelError(AnyorderError):
    """A checkpoint cannot be loaded or used."""


class UnknownFamily(ModelError):
    """`config.json` names an architecture that no registered family claims."""


class WeightsError(ModelError):
    """Weights are missing, unknown, truncated or of the wrong shape."""


class TokenizerMismatch(ModelError):
    """The family's mask or stop ids disagree with the tokenizer beside the weights."""


class DataError(AnyorderError, ValueError):
    """An input file cannot be read; the message names the file and the line."""


class TrainingError(AnyorderError):
    """A training run cannot go on: its loss is no number, or a checkpoint cannot be written or read."""


class SweepError(AnyorderError):
    """A sweep cannot go on: one answer after the other fails. What was measured is kept."""


class ServingError(AnyorderError):
    """A service did not answer a request that had nothing wrong with it."""


class Overloaded(ServingError):
    """The queue of a service is full."""


class Unavailable(ServingError):
    """A service takes no requests: not started, shutting down, or its engine died."""


class Cancelled(ServingError):
    """The caller gave the request up before its end."""


class DeadlineExceeded(ServingError):
    """A request was not answered within its time."""


class EngineFailed(ServingError):
    """The engine, or this request's part of it, failed; the cause is chained."""


class MissingExtra(AnyorderError, ImportError):
    """An optional dependency is missing; the message ends with the pip line that installs it."""
