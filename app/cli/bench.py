"""`nightingale bench`: time sentences of several lengths, stage by stage, in this process.

Each sentence is spoken once before it is timed, so that compiling at first use is not counted. The report has medians
over the runs; `first` is the time to the first piece of audio, `rtf` seconds of work per second of audio.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from statistics import median

from app import __version__
from app.cli.local import open_speech
from app.config import Settings
from app.speech.options import SpeechOptions
from models.timeline import Stage, Timeline

SENTENCES = {
    "greeting": "Hello world.",
    "short": "The kettle is on, and the tea is nearly ready.",
    "medium": "Before the shop opens, the baker lays out bread, rolls and cakes, and writes the prices on a board.",
    "long": (
        "When the old bridge was closed for repairs last winter, the people of both villages took the ferry instead, "
        "and some of them found that they liked the slow crossing better than the drive."
    ),
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """Medians for one sentence; seconds."""

    sentence: str
    characters: int
    audio: float
    first: float
    total: float
    rtf: float
    stages: dict[str, float]


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Measurements of one run of the command, and the machine and model they are of."""

    version: str
    device: str
    model: str
    voice: str
    repeat: int
    load: float
    rows: tuple[Measurement, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the report for JSON, in seconds."""
        return asdict(self)

    def as_table(self) -> str:
        """Return the report for a terminal, in milliseconds except for the length of the audio."""
        stages = [stage.value for stage in Stage if any(stage.value in row.stages for row in self.rows)]
        heads = ["sentence", "chars", "audio s", "first ms", "total ms", "RTF", *(f"{stage} ms" for stage in stages)]
        lines = [
            [
                row.sentence,
                str(row.characters),
                f"{row.audio:.2f}",
                f"{row.first * 1e3:.1f}",
                f"{row.total * 1e3:.1f}",
                f"{row.rtf:.3f}",
                *(f"{row.stages.get(stage, 0.0) * 1e3:.1f}" for stage in stages),
            ]
            for row in self.rows
        ]
        widths = [max(len(line[column]) for line in [heads, *lines]) for column in range(len(heads))]
        table = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in [heads, *lines]
        ]
        head = f"nightingale {self.version}, {self.model} ({self.voice}), {self.device}; loaded in {self.load:.2f} s"
        return "\n".join([head, f"medians of {self.repeat} runs", "", *table])


async def run(settings: Settings, *, model: str | None, voice: str | None, repeat: int) -> BenchReport:
    """Measure. Raises ServiceError for a model or voice that is missing."""
    start = time.perf_counter()
    async with open_speech(settings, model) as speech:
        load = time.perf_counter() - start
        options = SpeechOptions(model=model, voice=voice)
        rows = []
        for name, text in SENTENCES.items():
            timelines = []
            for _ in range(1 + repeat):
                timeline = Timeline()
                async for _pcm in speech.speak(text, options, timeline):
                    pass
                timelines.append(timeline)
            rows.append(_measurement(name, text, timelines[1:]))
        from models.backend import device_name

        return BenchReport(
            version=__version__,
            device=device_name(),
            model=speech.name,
            voice=voice or speech.synthesizer.default_voice,
            repeat=repeat,
            load=load,
            rows=tuple(rows),
        )


def _measurement(name: str, text: str, timelines: list[Timeline]) -> Measurement:
    stages = {
        stage.value: median(timeline.stages.get(stage, 0.0) for timeline in timelines)
        for stage in Stage
        if any(stage in timeline.stages for timeline in timelines)
    }
    return Measurement(
        sentence=name,
        characters=len(text),
        audio=timelines[0].audio_seconds,
        first=median(timeline.ttfa_seconds or 0.0 for timeline in timelines),
        total=median(timeline.total_seconds for timeline in timelines),
        rtf=median(timeline.rtf or 0.0 for timeline in timelines),
        stages=stages,
    )
