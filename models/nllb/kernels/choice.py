"""The kernels of a decoding step and of a short encoding, where they agree with plain operations on this device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from models.backend import mx
from models.layers.kernels.agreement import agree, choose, relative_difference
from models.layers.transformer import kernel_step
from models.layers.transformer.cuda import MAX_ROWS, CudaStep
from models.layers.transformer.encoder import CudaEncoder
from models.layers.transformer.shape import TransformerShape
from models.layers.transformer.step import OUTPUTS, TOKENS, OutputRows, Step, own_rows
from models.layers.transformer.weights import LayerWeights, TransformerWeights
from models.nllb.network import Nllb
from models.nllb.vocabulary import Tree, argmax

FAMILY = "nllb"
_COMPARED = (3, MAX_ROWS)  # rows: each kernel once
_ENCODED = ((1, MAX_ROWS), (2, MAX_ROWS // 2))  # sentences, and tokens of each
_TOKENS, _PLACE, _SOURCE = 4096, 9, 16


def shape(network: Nllb) -> TransformerShape:
    """Return the sizes of the decoder."""
    config = network.config
    return TransformerShape(
        width=config.d_model,
        heads=config.decoder_attention_heads,
        inner=config.decoder_ffn_dim,
        layers=config.decoder_layers,
        bits=network.shared.bits,
        scale=config.embedding_scale,
    )


def decoder_weights(network: Nllb) -> TransformerWeights:
    """Return what the kernels read of a lowered network."""
    decoder, layers = network.decoder, []
    for layer in decoder.layers:
        own, cross = layer.self_attn, layer.encoder_attn
        norms = layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm
        products = own.qkv_proj, own.out_proj, cross.q_proj, cross.out_proj, layer.fc1, layer.fc2
        layers.append(LayerWeights(norms, products))
    table, positions = network.shared.part, network._positions
    return TransformerWeights(shape(network), network.dtype, layers, decoder.layer_norm, table, positions)


def encoder_shape(network: Nllb) -> TransformerShape:
    """Return the sizes of the encoder."""
    config = network.config
    heads, inner, layers = config.encoder_attention_heads, config.encoder_ffn_dim, config.encoder_layers
    return replace(shape(network), heads=heads, inner=inner, layers=layers)


def encoder_weights(network: Nllb) -> TransformerWeights:
    """Return what the encoder's kernel reads of a lowered network."""
    encoder, layers = network.encoder, []
    for layer in encoder.layers:
        own, norms = layer.self_attn, (layer.self_attn_layer_norm, layer.final_layer_norm)
        layers.append(LayerWeights(norms, (own.qkv_proj, own.out_proj, layer.fc1, layer.fc2)))
    table, positions, sizes = network.shared.part, network._positions, encoder_shape(network)
    memory = network.decoder.memory_proj
    return TransformerWeights(sizes, network.dtype, layers, encoder.layer_norm, table, positions, memory)


def output_rows(tree: Tree) -> OutputRows:
    """Return the rows of a head that is in one piece."""
    ((part,), ((banned,),), ((entries,),)) = tree["parts"], tree["banned"], tree["table"]
    return OutputRows(tuple(part), banned, entries)


def choose_step(network: Nllb) -> Step | None:
    """Return a kernel step for a lowered network that agrees with the plain one on this device; None if there is none.

    Compiles its kernels (seconds each). A warning tells if they do not build or do not agree.
    """
    embed = network.shared.embed
    kernel = kernel_step(FAMILY, shape(network), network.dtype, lambda: decoder_weights(network), embed)
    return choose(
        "NLLB's step", kernel, lambda step: [each for rows in _COMPARED for each in differences(step, network, rows)]
    )


def choose_encoder(network: Nllb) -> CudaEncoder | None:
    """Return a kernel encoder for a lowered network that agrees with the plain one on this device, or None."""
    kernel = None
    if CudaStep.available(encoder_shape(network), network.dtype):
        kernel = CudaEncoder(FAMILY, encoder_weights(network), network.config.decoder_layers)
    return choose("NLLB's encoder", kernel, lambda own: [encoder_difference(own, network, *case) for case in _ENCODED])


def encoder_difference(encoder: CudaEncoder, network: Nllb, sentences: int, length: int) -> float:
    """Return how far an encoder's keys and values are from plain ones, relatively; some of a sentence is padding."""
    ids = 4 + mx.arange(sentences * length, dtype=mx.int32).reshape(sentences, length)
    counts = mx.full(sentences, length - length // 4, dtype=mx.int32)
    with plain(network):
        encoded, mask = network.encode(ids, counts)
    wanted = mx.stack(network.decoder.memories(encoded))
    return relative_difference(mx.stack(encoder(ids, mask.astype(mx.bfloat16))), wanted)


def layers_agree(network: Nllb) -> bool:
    """Return whether the kernels of single layers (`step`), which `network.fused` turns on, agree with plain layers."""

    def compare(rows: int) -> float:
        ids, place, past, memory, mask, _ = arrays(network, rows)
        found, _ = network.advance(ids, place, past, memory, mask)
        return relative_difference(found, plain_output(network, ids, place, past, memory, mask))

    return network.fused and agree("NLLB's layers", lambda: [compare(rows) for rows in _COMPARED])


@contextmanager
def plain(network: Nllb) -> Iterator[None]:
    """Have a network run by MLX's operations alone."""
    fused, network.fused = network.fused, False
    try:
        yield
    finally:
        network.fused = fused


Arrays = tuple[mx.array, mx.array, list[mx.array], list[mx.array], mx.array, mx.array]


def arrays(network: Nllb, rows: int) -> Arrays:
    """Return ids, place, past, memory, mask and origin of a `Step`; keys and values are random, some is padding."""
    heads, config, length = network.config.decoder_attention_heads, network.config, _PLACE + 7
    draw = iter(mx.random.split(mx.random.key(0), 2 * config.decoder_layers))

    def caches(length: int) -> list[mx.array]:
        shape = (rows, 2 * heads, length, config.d_model // heads)
        return [mx.random.normal(shape, key=next(draw)).astype(network.dtype) for _ in range(config.decoder_layers)]

    mask = mx.where(mx.arange(_SOURCE) < _SOURCE - 3, 0.0, float("-inf")).astype(network.dtype)
    mask = mx.contiguous(mx.broadcast_to(mask, (rows, 1, 1, _SOURCE)))
    ids, place = mx.arange(4, 4 + rows, dtype=mx.int32)[:, None], mx.array([_PLACE])
    return ids, place, caches(length), caches(_SOURCE), mask, own_rows(rows, length)


def plain_output(
    network: Nllb, ids: mx.array, place: mx.array, past: list[mx.array], memory: list[mx.array], mask: mx.array
) -> mx.array:
    """Return the output [B, n, C] of `Nllb.advance` for ids [B, n], by MLX's operations alone."""
    with plain(network):
        hidden, _ = network.advance(ids, place, past, memory, mask)
    return hidden


def differences(step: Step, network: Nllb, rows: int) -> tuple[float, float]:
    """Return how far `step` is from the plain one, relatively: in its output, and in the logit of its token."""
    given = arrays(network, rows)
    table = np.arange(min(_TOKENS, network.config.vocab_size), dtype=np.int32)
    tree = network.shared.head(table).tree
    wanted = plain_output(network, *given[:5])
    mx.eval(wanted, given)  # before `step` writes into the caches
    found, _ = step(*given, output_rows(tree), OUTPUTS)
    tokens, _ = step(*given, output_rows(tree), TOKENS)
    best, taken = (logits_of(network, wanted, each) for each in (argmax(tree, wanted, network.shared.bits), tokens))
    return relative_difference(found, wanted), float(np.max((best - taken) / np.abs(best)))


def logits_of(network: Nllb, hidden: mx.array, tokens: mx.array) -> npt.NDArray[np.float32]:
    """Return the logit of each token [...], for outputs [..., C]."""
    rows = network.shared.rows(mx.maximum(tokens, 0)).astype(mx.float32)
    return np.array(mx.sum(rows * hidden.astype(mx.float32), axis=-1))
