"""The kernel of a decoding step, where it agrees with the plain step on the device there is."""

from __future__ import annotations

from models.backend import mx
from models.layers.kernels.agreement import choose, relative_difference
from models.layers.transformer import kernel_step
from models.layers.transformer.cuda import MAX_ROWS
from models.layers.transformer.shape import TransformerShape
from models.layers.transformer.step import OUTPUTS, OutputRows, Step, own_rows
from models.layers.transformer.weights import LayerWeights, TransformerWeights
from models.whisper.config import WhisperConfig
from models.whisper.network import Whisper

FAMILY = "whisper"

_COMPARED = ((1, 3), (2, 2), (1, MAX_ROWS))  # windows, and rows of each: each kernel once, and shared memory
_PLACE, _LENGTH, _POSITIONS = 9, 16, 320  # enough positions that blocks share a row's


def shape(config: WhisperConfig, bits: int) -> TransformerShape:
    """Return the sizes of the decoder, whose weights have `bits`."""
    width = config.n_text_state
    return TransformerShape(width, config.n_text_head, 4 * width, config.n_text_layer, bits, "gelu")


def decoder_weights(network: Whisper) -> TransformerWeights:
    """Return what the kernels read of a lowered network."""
    decoder, layers = network.decoder, []
    for block in decoder.blocks:
        own, cross, norms = block.attn, block.cross_attn, (block.attn_ln, block.cross_attn_ln, block.mlp_ln)
        layers.append(LayerWeights(norms, (own.qkv, own.out, cross.query, cross.out, block.mlp1, block.mlp2)))
    table, positions = decoder.token_embedding.part, decoder.positional_embedding
    return TransformerWeights(shape(network.config, network.bits), network.dtype, layers, decoder.ln, table, positions)


def output_rows(network: Whisper) -> OutputRows:
    """Return all tokens' rows. The step ends with its outputs, so that they are named, but not read."""
    entries = mx.arange(network.config.n_vocab, dtype=mx.int32)
    return OutputRows(network.decoder.token_embedding.part, mx.zeros(entries.shape, dtype=mx.bfloat16), entries)


def choose_step(network: Whisper) -> Step | None:
    """Return a kernel step for a lowered network that agrees with the plain one on this device; None if there is none.

    Compiles its kernels (seconds each). A warning tells if they do not build or do not agree.
    """
    sizes, embed = shape(network.config, network.bits), network.decoder.token_embedding.embed
    kernel = kernel_step(FAMILY, sizes, network.dtype, lambda: decoder_weights(network), embed)
    return choose("Whisper's step", kernel, lambda step: [difference(step, network, *case) for case in _COMPARED])


def difference(step: Step, network: Whisper, windows: int, rows: int) -> float:
    """Return how far the output of `step` is from the plain one's, relatively, for `rows` of each of the `windows`."""
    config, count = network.config, windows * rows
    keys = iter(mx.random.split(mx.random.key(0), 2 * config.n_text_layer))

    def caches(batch: int, length: int) -> list[mx.array]:
        size = (batch, 2 * config.n_text_head, length, config.n_text_state // config.n_text_head)
        return [mx.random.normal(size, key=next(keys)).astype(network.dtype) for _ in network.decoder.blocks]

    ids, place = mx.arange(4, 4 + count, dtype=mx.int32)[:, None], mx.array([_PLACE])
    past, memory = caches(count, _LENGTH), caches(windows, _POSITIONS)
    wanted, _ = network.decoder(ids, place, past, memory)
    mx.eval(wanted, past, memory)  # before `step` writes into the caches
    mask = mx.zeros((windows, 1, 1, _POSITIONS), dtype=mx.bfloat16)
    found, _ = step(ids, place, past, memory, mask, own_rows(count, _LENGTH), output_rows(network), OUTPUTS)
    return relative_difference(found, wanted)
