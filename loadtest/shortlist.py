"""Measure what a vocabulary shortlist changes in translations: the phrase book with less and less of its vocabulary.

    python -m loadtest.shortlist [--sizes 3000,2000,1000] [--limit 200]

Sentences that its training held out, into each of its languages, greedy. `same`: translations that equal those with the
whole vocabulary; `fits`: those whose own tokens are all in the shortlist; `right`: equal to the reference, letter by
letter. The phrase book's tokenizer is made like NLLB's (byte-pair merges, most frequent first) and has a seventieth of
its tokens, all of which its sentences need: for NLLB this is a worst case.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from models.backend import mx
from models.checkpoint import read_arrays
from models.contract import TranslationRequest
from models.nllb.config import load_config
from models.nllb.network import Nllb
from models.nllb.pipeline import NllbTranslator
from models.nllb.text import NllbTokenizer
from models.nllb.weights import load_weights
from models.timeline import Timeline

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "models/phrasebook"
SENTENCES = ROOT / "tests/models/nllb/phrasebook_held_out.json"
CODES = {"es": "spa_Latn", "fr": "fra_Latn", "de": "deu_Latn"}


def model(shortlist: int) -> NllbTranslator:
    """The phrase book without its coverage, which would leave the shortlist out."""
    config = load_config(str(FOLDER / "config.json"))
    network = Nllb(config)
    weights = str(FOLDER / "model.safetensors")
    load_weights(network, read_arrays(weights), weights, mx.float32)
    network.lower()
    return NllbTranslator(config, network, NllbTokenizer(str(FOLDER / "tokenizer.json"), config), shortlist=shortlist)


def translate(translator: NllbTranslator, texts: Sequence[str], target: str, *, beams: int = 1) -> list[str]:
    """Each English text's translation into `target`."""
    made = [""] * len(texts)
    for start in range(0, len(texts), translator.max_batch):
        some = texts[start : start + translator.max_batch]
        batch = [TranslationRequest(text, "eng_Latn", target, beams=beams) for text in some]
        for one in translator.translate(batch, Timeline(), lambda: False):
            if one is not None:
                made[start + one.index] = one.best.text
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="3420,2850,1900,950")
    parser.add_argument("--limit", type=int, default=200)
    options = parser.parse_args()
    pairs = json.loads(SENTENCES.read_text(encoding="utf-8"))[: options.limit]
    texts = [pair["en"] for pair in pairs]
    whole = model(0)
    wanted = {language: translate(whole, texts, code) for language, code in CODES.items()}
    print(f"{len(texts)} sentences, {whole.tokenizer.size} tokens in all; shares of the translations, in percent")
    print("  tokens  language   same   fits  right")
    for size in [0, *map(int, options.sizes.split(","))]:
        shortened = model(size) if size else whole
        for language, code in CODES.items():
            found = translate(shortened, texts, code) if size else wanted[language]
            allowed = set(shortened.tokenizer.shortlist(code[4:], size).tolist()) if size else None
            tokens = [whole.tokenizer.encode(text, code)[1:] for text in wanted[language]]
            fits = [allowed is None or set(ids) <= allowed for ids in tokens]
            same = [one == other for one, other in zip(found, wanted[language], strict=True)]
            right = [one == pair[language] for one, pair in zip(found, pairs, strict=True)]
            shares = [100 * sum(rows) / len(texts) for rows in (same, fits, right)]
            print(
                f"  {size or whole.tokenizer.size:6d}  {language:8s} " + " ".join(f"{share:6.1f}" for share in shares)
            )


if __name__ == "__main__":
    main()
