"""Errors of models.

ModelError
├── ModelRequestError        the caller asked for something this model cannot do
│   ├── UnknownVoiceError
│   ├── UnknownLanguageError
│   ├── OutsideCoverageError
│   ├── UnusableReferenceError
│   └── InputTooLongError
├── WeightsError             files that are missing, extra, misshapen, or not what they claim to be
│   └── WeightsMissingError
└── Cancelled                the caller went away; nothing was lost
"""

from __future__ import annotations


class ModelError(Exception):
    """Base of the errors that a model raises on purpose."""


class ModelRequestError(ModelError):
    """The request cannot be served by this model; the message says what is accepted."""


class UnknownVoiceError(ModelRequestError):
    """No voice of that name, or a blend that cannot be parsed."""


class UnknownLanguageError(ModelRequestError):
    """The model does not translate from or to that language."""


class OutsideCoverageError(ModelRequestError):
    """A demonstration model was asked for text that it was not made for."""


class UnusableReferenceError(ModelRequestError):
    """A recording from which no voice can be made: too short, silent, or not like speech."""


class InputTooLongError(ModelRequestError):
    """More input in one request than the model's positions allow."""


class WeightsError(ModelError):
    """A checkpoint array is missing, extra or misshapen, or a file is malformed. The message names it."""


class WeightsMissingError(WeightsError):
    """The files of a model are not on this machine."""


class Cancelled(ModelError):  # noqa: N818  (an outcome, not an error)
    """A model stopped because `cancelled()` turned true."""
