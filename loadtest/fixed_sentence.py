"""Checkpoints of Whisper and NLLB of random numbers that write one fixed sentence, to measure a whole server with.

All is computed as with real weights, and a text comes out that ends. The last layer of the decoder holds a chain:
one neuron for each token of the sentence finds its token in the residual stream and writes the next one. What the
layers before it write is made quiet, so that a token stays to be found. The sentence comes out whatever goes in.

The files have the names and sizes that the catalog knows. Each token may come once in a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from app.translation.text.codes import FLORES
from loadtest import nllb_peers, whisper_peers
from models.backend import mx
from models.nllb.config import NllbConfig
from models.whisper.config import WhisperConfig
from models.whisper.text import TIMESTAMP_SECONDS, WhisperTokenizer

Arrays = dict[str, mx.array]
Links = Mapping[int, Mapping[int, float]]
"""Token -> the tokens that may follow it, the likeliest first, and how much of each is written."""

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
NLLB_PIECES = 256001
"""Pieces of NLLB's vocabulary. Its languages follow."""
QUIET = 0.01
# Share of the greatest match below which a neuron of the chain is silent.
THRESHOLD = 1 / 3
# Length of what is written, in lengths of what it is written to.
LOUDNESS = 8


def hold(
    arrays: Arrays, links: Links, *, table: str, layers: str, last: int, fc: tuple[str, str], scale: float
) -> None:
    """Put `links` into a decoder.

    Args:
        arrays: The checkpoint, which changes.
        links: The chain.
        table: Name of the embeddings, whose rows have lengths near 1.
        layers: What the names of the decoder's layers begin with.
        last: Number of the last one.
        fc: Names of its two linear layers.
        scale: Factor of the embeddings in the residual stream.
    """
    outputs = re.compile(re.escape(layers) + r".*(attn\.out|out_proj|mlp2|fc2)\.weight")
    for name in filter(outputs.fullmatch, arrays):
        arrays[name] = arrays[name] * QUIET
    embeddings = arrays[table]
    most = embeddings.shape[1] ** 0.5
    inner, outer = (f"{layers}{last}.{name}" for name in fc)
    first, bias, second = f"{inner}.weight", f"{inner}.bias", f"{outer}.weight"
    for neuron, (token, following) in enumerate(links.items()):
        arrays[first][neuron] = _unit(embeddings[token])
        arrays[bias][neuron] = -THRESHOLD * most
        written = sum((share * _unit(embeddings[after]) for after, share in following.items()), mx.array(0.0))
        # A match has about two thirds of the most, as positions are in the stream too.
        arrays[second][:, neuron] = written * (LOUDNESS * scale / (THRESHOLD * most))
    mx.eval(arrays)


def _unit(row: mx.array) -> mx.array:
    return row / mx.sqrt(mx.sum(row * row))


def chain(tokens: Sequence[int]) -> dict[int, dict[int, float]]:
    """Return the links of tokens that follow each other. Raises ValueError if one comes twice."""
    if len(set(tokens)) != len(tokens):
        raise ValueError(f"a token comes twice in {list(tokens)}")
    return {token: {after: 1.0} for token, after in pairwise(tokens)}


def whisper_tokenizer(ranks: Path, config: WhisperConfig, folder: Path) -> None:
    """Write the hub's tokenizer.json of OpenAI's file of ranks; large-v3 and turbo have one language more."""
    own = WhisperTokenizer(ranks, config)
    parts = json.loads(own._tokenizer.to_str())
    parts["model"]["vocab"].setdefault("", len(own.pieces) - 1)  # the token of no letters
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in own.specials])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def time_token(tokenizer: WhisperTokenizer, seconds: float) -> int:
    """Return the token of a time."""
    return tokenizer.first_timestamp + round(seconds / TIMESTAMP_SECONDS)


def write_whisper(folder: Path, config: WhisperConfig, ranks: Path, text: str, seconds: float) -> None:
    """Write a Whisper that hears `text`, which lasts so many seconds.

    With times it writes <|0.00|>, the text, and the token of its end. Without times, and with that token suppressed, it
    writes the text alone.
    """
    folder.mkdir(parents=True)
    tokenizer = WhisperTokenizer(ranks, config)
    words = tokenizer.encode_prompt(text)
    begin, end = (time_token(tokenizer, moment) for moment in (0.0, seconds))
    links = chain([*tokenizer.start_sequence("en", "transcribe", timestamps=True), begin, *words, end, tokenizer.end])
    links |= {tokenizer.no_timestamps: {words[0]: 1.0}, words[-1]: {end: 1.0, tokenizer.end: 0.8}}
    arrays = whisper_peers.random_arrays(config)
    table = "decoder.token_embedding.weight"
    arrays[table][tokenizer.end] = mx.random.normal((config.n_text_state,)) / config.n_text_state**0.5
    arrays["decoder.ln.weight"] = mx.ones(config.n_text_state)
    last = config.n_text_layer - 1
    hold(arrays, links, table=table, layers="decoder.blocks.", last=last, fc=("mlp1", "mlp2"), scale=1)
    mx.save_safetensors(str(folder / "model.safetensors"), arrays)
    (folder / "config.json").write_text(json.dumps(asdict(config)), encoding="utf-8")
    whisper_tokenizer(ranks, config, folder)


def nllb_tokenizer(folder: Path, texts: Sequence[str]) -> Tokenizer:
    """Write a tokenizer.json of NLLB's size whose pieces are the words and marks of `texts`; return it."""
    words = [piece for text in texts for word in text.split() for piece in re.findall(r"^\w+|[^\w]", f"{word}")]
    pieces = list(dict.fromkeys(f"\u2581{word}" if word[0].isalnum() else word for word in words))
    # Letters of no script stand for the pieces that no text here has.
    rest = [f"\ue000{number}" for number in range(NLLB_PIECES - len(SPECIALS) - len(pieces))]
    scores = dict.fromkeys(SPECIALS, 0.0) | dict.fromkeys(pieces, -1.0) | dict.fromkeys(rest, -99.0)
    tokenizer = Tokenizer(models.Unigram(list(scores.items()), unk_id=SPECIALS.index("<unk>")))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in (*SPECIALS, *FLORES, "<mask>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def write_nllb(folder: Path, size: nllb_peers.Size, source: str, target: str) -> None:
    """Write an NLLB that translates everything by `target`, in the language of `size`; it has words of `source`."""
    folder.mkdir(parents=True)
    config: NllbConfig = size.config
    tokenizer = nllb_tokenizer(folder, (source, target))
    words = tokenizer.encode(target, add_special_tokens=False).ids
    arrays = nllb_peers.random_arrays(config)
    arrays["model.decoder.layer_norm.weight"] = mx.ones(config.d_model)
    hold(
        arrays,
        chain([size.start[-1], *words, nllb_peers.END]),
        table="model.shared.weight",
        layers="model.decoder.layers.",
        last=config.decoder_layers - 1,
        fc=("fc1", "fc2"),
        scale=config.embedding_scale,
    )
    mx.save_safetensors(str(folder / "model.safetensors"), arrays)
    (folder / "config.json").write_text(json.dumps(size.numbers), encoding="utf-8")
