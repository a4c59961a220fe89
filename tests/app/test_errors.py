import inspect

import pytest

from app import errors

CLASSES = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, errors.ServiceError) and found.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_can_be_rendered(kind: type[errors.ServiceError]) -> None:
    error = kind("what was wrong")
    assert error.body()["message"] == str(error) == "what was wrong"
    assert set(error.body()) == {"message", "type", "param", "code"}
    assert 400 <= error.status < 600
    assert error.close_code in {1008, 1009, 1011, 1012, 1013}
    assert (error.status >= 500) == (error.type in {"server_error", "service_unavailable"})


def test_codes_tell_errors_apart() -> None:
    codes = [kind.code for kind in CLASSES]
    assert len(set(codes)) == len(codes)


def test_param_and_retry_after_can_be_given() -> None:
    error = errors.OverloadedError("full", retry_after=7)
    assert error.headers() == {"retry-after": "7", "retry-after-ms": "7000"}
    assert errors.DrainingError("bye").headers()["retry-after"] == "5"
    assert errors.InvalidRequestError("no", param="speed").body()["param"] == "speed"
    assert errors.EmptyInputError("no").headers() == {}


def test_part_of_a_second_is_not_too_early() -> None:
    assert errors.QuotaExceededError("no", retry_after=0.25).headers() == {"retry-after": "1", "retry-after-ms": "250"}


def test_a_missing_key_is_challenged() -> None:
    assert errors.AuthenticationError("no").headers() == {"www-authenticate": "Bearer"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/srv/a b/model.safetensors: array 'x' is missing", "model.safetensors: array 'x' is missing"),
        ("[Errno 13] Permission denied: '/home/ada/.cache/mlx/cpu'", "[Errno 13] Permission denied: 'cpu'"),
        ("cannot read /srv/one/a and /srv/two/b", "cannot read b"),
        ("file:/etc/passwd", "file:passwd"),
        ("shape (1, 2) is 1/2 of and/or", "shape (1, 2) is 1/2 of and/or"),
        ("first /a/b\nsecond /c/d", "first b\nsecond d"),
    ],
)
def test_strangers_are_told_no_folders(text: str, told: str) -> None:
    assert errors.without_paths(text) == told
