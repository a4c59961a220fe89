"""Errors of models as the service's own."""

from __future__ import annotations

import pytest

from app import errors
from app.engine import service_errors
from app.engine.service_errors import service_error
from models import contract


@pytest.mark.parametrize(
    ("raised", "kind", "param"),
    [
        (contract.UnknownVoiceError("x"), errors.UnknownVoiceError, "voice"),
        (contract.UnknownLanguageError("x"), errors.UnsupportedLanguageError, "target"),
        (contract.InputTooLongError("x"), errors.TextTooLongError, "input"),
        (contract.ModelRequestError("x"), errors.InvalidRequestError, None),
    ],
)
def test_each_error_has_its_kind_and_parameter(
    raised: contract.ModelRequestError, kind: type, param: str | None
) -> None:
    found = service_error(raised, "Sentence 2: ")
    assert type(found) is kind
    assert found.message == "Sentence 2: x"
    assert found.body()["param"] == param


def test_the_surface_names_the_text_that_is_too_long() -> None:
    found = service_error(contract.InputTooLongError("x"), text_param="text")
    assert isinstance(found, errors.TextTooLongError)
    assert found.body()["param"] == "text"


def test_no_row_of_the_table_is_hidden_by_one_before_it() -> None:
    rows = [own for own, _, _ in service_errors._TABLE]
    for number, own in enumerate(rows):
        assert not any(issubclass(own, before) for before in rows[:number]), own
