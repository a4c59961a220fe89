"""Judge the ear's drafts: the same tokens as without them, the share that is accepted, and the time that they save.

    python -m training.ear.drafts --model models/ear [--utterances 500]

The sentences of `eval_sentences.txt` by five voices, in float32. Each utterance is encoded once, then decoded greedily
without a draft, with the CTC head's, and with the sentence that was to be said; the order of the three turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from models.whisper import features
from models.whisper.ctc import best_tokens
from models.whisper.decoding import Decoded, DecodingOptions, decode
from models.whisper.pipeline import WhisperRecognizer, drain
from models.whisper.steps import Memory
from training.corpus import HELD_OUT as SENTENCES
from training.ear.evaluate import Said, load_ear, say
from training.ear.lines import target
from training.ear.speakers import HOUSE
from training.ear.texts import read_texts

VOICES = (*HOUSE[:2], "flite:rms", "espeak:en-us", "espeak:en-us+f4")
KINDS = ("none", "CTC", "sentence")


def timed(recognizer: WhisperRecognizer, memory: Memory, draft: Sequence[int]) -> tuple[Decoded, float]:
    """Return the transcript of an encoded window with a draft, and the milliseconds that it took."""
    options = DecodingOptions(timestamps=False, draft=tuple(draft))
    started = time.perf_counter()
    found = drain(decode(recognizer.steps, recognizer.tokenizer, memory, options, lambda: False))
    return found[0], (time.perf_counter() - started) * 1e3


def judge(recognizer: WhisperRecognizer, said: Sequence[Said]) -> None:
    """Print the table of all utterances."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    accepted, same = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    tokens = 0
    for number, one in enumerate(said):
        size = min(len(one.audio) // features.HOP, recognizer.config.window)
        mel = drain(features.recording(one.audio, recognizer.config.n_mels, recognizer.config.window))
        window = features.short_window(mel, 0, size)
        memory, labels = drain(recognizer.steps.hear(window[None]))
        head = tuple(best_tokens(labels[0]))
        drafts = {"none": (), "CTC": head, "sentence": recognizer.encode_text(one.text)}
        results = {}
        for kind in (*KINDS[number % 3 :], *KINDS[: number % 3]):
            results[kind], spent = timed(recognizer, memory, drafts[kind])
            times[kind].append(spent)
        tokens += len(results["none"].tokens)
        for kind, found in results.items():
            accepted[kind] += found.accepted
            same[kind] += found.tokens == results["none"].tokens
    print(f"{len(said)} utterances, {tokens} tokens, {recognizer.config.n_text_layer} layers of the decoder")
    print("| draft | same tokens | accepted, of the transcript | ms, median | ms, sum | without / with |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for kind in KINDS:
        total, gain = sum(times[kind]), sum(times["none"]) / sum(times[kind])
        print(
            f"| {kind} | {same[kind]} of {len(said)} | {accepted[kind] / tokens:.1%} | "
            f"{statistics.median(times[kind]):.1f} | {total:.0f} | {gain:.2f} |"
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Judge the model that the arguments name."""
    parser = argparse.ArgumentParser(description="Judge the drafts of the ear.")
    parser.add_argument("--model", type=Path, default=Path("models/ear"))
    parser.add_argument("--utterances", type=int, default=500)
    options = parser.parse_args(argv)
    recognizer = load_ear(options.model)
    assert isinstance(recognizer, WhisperRecognizer)
    sentences = [text for line in read_texts(SENTENCES) if (text := target(line))]
    most = -(-options.utterances // len(VOICES))
    said = [one for name in VOICES for one in say(name, sentences[:most])]
    judge(recognizer, [one for one in said if len(one.audio) > features.HOP][: options.utterances])


if __name__ == "__main__":
    main()
