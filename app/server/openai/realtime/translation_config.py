"""Configuration of a translation session of OpenAI's: what changes in it, and what it means here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from app.engine.catalog import Catalog
from app.errors import InvalidRequestError
from app.interpretation.options import InterpretationOptions
from app.server.openai.realtime.config import ConfigPart, NoiseReduction, explain, merged
from app.server.schemas import UnicodeText
from app.speech.options import SpeechOptions

# Language of a session that names none.
DEFAULT_LANGUAGE: Final = "en"
# Names of OpenAI's models, which stand for the default ones.
_OPENAI: Final = "gpt-"


class SourceTranscription(ConfigPart):
    """Transcript of the source. The model is that of the session, whatever OpenAI's name is given."""

    model: UnicodeText


class TranslationInput(ConfigPart):
    """Input of a session."""

    transcription: SourceTranscription | None = None
    noise_reduction: NoiseReduction | None = None


class TranslationOutput(ConfigPart):
    """Output of a session."""

    language: UnicodeText | None = None


class TranslationAudio(ConfigPart):
    """Audio of a session."""

    input: TranslationInput = TranslationInput()
    output: TranslationOutput = TranslationOutput()


class TranslationConfig(ConfigPart):
    """Configuration of a translation session, in the shape of `session.update`. `model` is set once."""

    type: Literal["translation"] = "translation"
    model: Annotated[UnicodeText, Field(min_length=1, max_length=200)]
    audio: TranslationAudio = TranslationAudio()

    def changed(self, fields: dict[str, Any]) -> TranslationConfig:
        """Return the configuration with the fields that `fields` name. Raises InvalidRequestError."""
        if fields.get("model", self.model) != self.model:
            raise InvalidRequestError("The model of a session cannot be changed.", param="session.model")
        return configured({**merged(self.model_dump(exclude_unset=True), fields), "model": self.model})

    def shown(self) -> dict[str, Any]:
        """Return the configuration as clients read it."""
        given = self.audio.input
        reduction = given.noise_reduction and given.noise_reduction.model_dump(exclude_none=True)
        transcription = given.transcription and given.transcription.model_dump()
        return {
            "type": "translation",
            "model": self.model,
            "audio": {
                "input": {"transcription": transcription, "noise_reduction": reduction},
                "output": {"language": self.audio.output.language or DEFAULT_LANGUAGE},
            },
        }

    def options(self, query: Mapping[str, str], catalog: Catalog) -> InterpretationOptions:
        """Return the options of the interpretation. Raises UnknownModelError.

        `model` is a model of the catalog, of any kind, or a name of OpenAI's. The `query` of the address may name
        `source`, `voice`, `speech_model`, `translate_model` and `recognition_model`: extra parameters of OpenAI's
        clients.
        """
        kinds: dict[str, str] = {}
        if not self.model.lower().startswith(_OPENAI):
            name = catalog.resolve(self.model)
            kinds[catalog.kind(name)] = name
        return InterpretationOptions(
            speech=SpeechOptions(
                translate_to=self.audio.output.language or DEFAULT_LANGUAGE,
                source=query.get("source"),
                voice=query.get("voice"),
                translate_model=query.get("translate_model") or kinds.get("translation"),
                model=query.get("speech_model") or kinds.get("text-to-speech"),
            ),
            recognition_model=query.get("recognition_model") or kinds.get("speech-recognition"),
        )


def configured(fields: dict[str, Any]) -> TranslationConfig:
    """Return the configuration of a new session. Raises InvalidRequestError."""
    try:
        return TranslationConfig.model_validate(fields)
    except ValidationError as error:
        raise explain(error) from None
