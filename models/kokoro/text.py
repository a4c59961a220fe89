"""Convert phoneme characters to token ids."""

from __future__ import annotations

from collections.abc import Mapping

from models.contract import InputTooLongError, ModelRequestError

BOUNDARY = 0  # the token before the first and after the last phoneme


def tokenize(phonemes: str, vocab: Mapping[str, int], limit: int) -> tuple[list[int], list[int]]:
    """Return the ids [0, ..., 0] and, for each character of `phonemes`, the index of its token.

    A character outside the vocabulary is dropped, as in the reference, and shares the token before it. Raises
    ModelRequestError where nothing remains, InputTooLongError past `limit` phonemes.
    """
    ids, places = [BOUNDARY], []
    for character in phonemes:
        token = vocab.get(character)
        if token is not None:
            ids.append(token)
        places.append(len(ids) - 1)
    if len(ids) == 1:
        raise ModelRequestError("nothing to speak: no phoneme of this text is in the model's alphabet")
    if len(ids) - 1 > limit:
        raise InputTooLongError(f"{len(ids) - 1} phonemes in one utterance; at most {limit} are accepted")
    ids.append(BOUNDARY)
    return ids, places
