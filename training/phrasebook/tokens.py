"""The tokenizer: byte-pair pieces in NLLB's layout, trained on the grammar's own sentences.

    python -m training.phrasebook.tokens build/phrasebook/tokenizer.json

Its normalizer prepares an English sentence for the network: lower case, no final mark, no contractions. The network's
output is never normalized, so training reads targets with `for_targets`.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from training.phrasebook.english import CONTRACTIONS
from training.phrasebook.grammar import sentences
from training.phrasebook.lexicon import TARGETS

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
CODES = {"en": "eng_Latn", "es": "spa_Latn", "fr": "fra_Latn", "de": "deu_Latn"}
MASK = "<mask>"
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ÀÁÄÉÈÖÜßàáâäçèéêëíîïñóôöùúûüœ¿¡?!.,'-▁"
PIECES = 3800
SEED = 20
SENTENCES = 60_000


def normalizer() -> normalizers.Normalizer:
    """Lower case, straight apostrophes, single spaces, contractions written out, and no mark at the end."""
    steps = [
        normalizers.NFC(),
        normalizers.Lowercase(),
        normalizers.Replace(Regex("[’ʼ`´]"), "'"),
        normalizers.Replace(Regex(r"\s+"), " "),
        normalizers.Strip(),
        normalizers.Replace(Regex(r"[ .!?…]+$"), ""),
    ]
    steps += [normalizers.Replace(Regex(rf"\b{short}\b"), long) for short, long in CONTRACTIONS.items()]
    return normalizers.Sequence(steps)


def texts(seed: int, count: int) -> Iterator[str]:
    """Yield the training texts of the pieces: normalized English, and the translations unchanged."""
    plain = normalizer()
    for pair in itertools.islice(sentences(seed, held_out=False), count):
        yield plain.normalize_str(pair.texts["en"])
        yield from (pair.texts[language] for language in TARGETS)


def train(pieces: int = PIECES, seed: int = SEED, count: int = SENTENCES) -> Tokenizer:
    """Special tokens 0 to 3, then `pieces` in all, then the language codes and the mask."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=pieces, special_tokens=list(SPECIAL), initial_alphabet=list(ALPHABET), show_progress=False
    )
    tokenizer.train_from_iterator(texts(seed, count), trainer)
    special = [AddedToken(code, special=True, normalized=False) for code in (*CODES.values(), MASK)]
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizer()
    ids = [(token, tokenizer.token_to_id(token)) for token in (CODES["en"], "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(f"{CODES['en']} $A </s>", special_tokens=ids)
    return tokenizer


def for_targets(tokenizer: Tokenizer) -> Tokenizer:
    """The same pieces, for text in the languages that the network writes."""
    layout = json.loads(tokenizer.to_str())
    layout["normalizer"] = None
    return Tokenizer.from_str(json.dumps(layout))


def main(argv: Sequence[str] | None = None) -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description="Train the phrase book's tokenizer.")
    parser.add_argument("out", type=Path)
    options = parser.parse_args(argv)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = train()
    tokenizer.save(str(options.out))
    print(f"{tokenizer.get_vocab_size()} tokens -> {options.out}")


if __name__ == "__main__":
    main()
