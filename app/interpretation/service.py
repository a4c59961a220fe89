"""Interpretation service: check a session's options, and open it."""

from __future__ import annotations

from dataclasses import replace

from app.engine.model_loader import Progress
from app.errors import ConsentMissingError, InvalidRequestError
from app.interpretation.options import SENTENCE_PAUSE, InterpretationOptions, PreparedInterpretation
from app.interpretation.session import Interpretation
from app.observability import metrics
from app.recognition.events import LiveOptions
from app.recognition.service import RecognitionService
from app.speech.service import SpeechService
from app.translation.service import AUTO
from models.contract import VoiceCloner


class InterpretationService:
    """Prepares sessions, from the services that recognize, translate and speak."""

    def __init__(self, recognition: RecognitionService, speech: SpeechService) -> None:
        self.recognition = recognition
        self.speech = speech

    async def prepare(self, options: InterpretationOptions, progress: Progress | None = None) -> PreparedInterpretation:
        """Check the options of translation and speech; those of recognition are checked when the session is opened.

        Models that are being loaded are waited for; `progress` is called with their state. Raises what
        `SpeechService.prepare` raises, and ConsentMissingError for a voice to be cloned without it.
        """
        if options.clone_voice and not options.consent:
            raise ConsentMissingError(
                "The voice of who speaks is cloned only with their consent: send 'consent' as true once you have it."
            )
        speech = await self.speech.prepare(options.speech, progress=progress)
        if speech.route is None:
            raise InvalidRequestError("A language to interpret to is needed.", param="target")
        if options.clone_voice and not isinstance(speech.synthesizer, VoiceCloner):
            cloners = ", ".join(self.speech.voices.cloners())
            raise InvalidRequestError(
                f"Model '{speech.model}' cannot speak in the voice of a recording; accepted with 'clone_voice' are: "
                f"{cloners}.",
                param="model",
            )
        return PreparedInterpretation(options=options, route=speech.route, speech=replace(speech, route=None))

    async def open(
        self, prepared: PreparedInterpretation, surface: metrics.SurfaceName, progress: Progress | None = None
    ) -> Interpretation:
        """Open a session that was prepared; close it in the end. Its metrics have the label `surface`.

        Waits for the recognizer as `prepare` does for the other models. Raises what `RecognitionService.live` raises.
        """
        options, recognition = prepared.options, self.recognition
        name, _ = await recognition.model(options.recognition_model, progress)
        source = options.speech.source
        live = await recognition.live(
            LiveOptions(
                model=name,
                language=None if source is None or source.strip().lower() == AUTO else source,
                prompt=options.prompt,
                keywords=options.keywords,
                detection=options.detection,
                partials=options.partials or options.anticipate,
                sentence_pause=min(SENTENCE_PAUSE, options.detection.min_silence) if options.detection else None,
            ),
            labels=metrics.Labels(name, surface, True),
        )
        return Interpretation(self.speech, live, prepared, name, surface)
