"""Errors of texts and models as the service's own."""

from __future__ import annotations

import pytest

from app import errors
from app.engine import service_errors
from app.engine.service_errors import as_service_errors
from app.text import errors as text_errors
from models import contract


@pytest.mark.parametrize(
    ("raised", "kind", "param"),
    [
        (text_errors.NothingToSpeakError("x"), errors.NothingToSpeakError, "input"),
        (text_errors.MissingExtraError("x", extra="ja"), errors.UnsupportedLanguageError, "lang"),
        (text_errors.PhonemizerUnavailableError("x"), errors.UnavailableError, None),
        (text_errors.GlossaryError("x"), errors.InvalidRequestError, "glossary"),
        (text_errors.TextError("x"), errors.InvalidRequestError, "input"),
        (contract.UnknownVoiceError("x"), errors.UnknownVoiceError, "voice"),
        (contract.UnknownLanguageError("x"), errors.UnsupportedLanguageError, "target"),
        (contract.InputTooLongError("x"), errors.TextTooLongError, "input"),
        (contract.ModelRequestError("x"), errors.InvalidRequestError, None),
    ],
)
def test_each_error_has_its_kind_and_parameter(raised: Exception, kind: type, param: str | None) -> None:
    with pytest.raises(errors.ServiceError) as caught, as_service_errors("Sentence 2: "):
        raise raised
    assert type(caught.value) is kind
    assert caught.value.message == "Sentence 2: x"
    assert caught.value.body()["param"] == param
    assert caught.value.__cause__ is raised


def test_the_surface_names_the_text_that_is_too_long() -> None:
    with pytest.raises(errors.TextTooLongError) as caught, as_service_errors(text_param="text"):
        raise contract.InputTooLongError("x")
    assert caught.value.body()["param"] == "text"


def test_other_errors_pass() -> None:
    with pytest.raises(errors.DrainingError), as_service_errors():
        raise errors.DrainingError("x")
    with pytest.raises(KeyError), as_service_errors():
        raise KeyError("x")


def test_no_row_of_the_table_is_hidden_by_one_before_it() -> None:
    rows = [own for own, _, _ in service_errors._TABLE]
    for number, own in enumerate(rows):
        assert not any(issubclass(own, before) for before in rows[:number]), own
