"""Sources of the decoding step's kernels: the headers, after the constants of one network."""

from __future__ import annotations

from pathlib import Path

from models.layers.kernels.device import read
from models.nllb.config import NllbConfig

HEAD = 64
ENDINGS = NOTHING, TOKENS, OUTPUTS = range(3)  # what a step ends with: see step.h
_RUN = 64  # weights of a row that a warp multiplies at once
_MOST_WARPS = 16  # a block


def warps(config: NllbConfig, most: int = _MOST_WARPS) -> int:
    """Return the warps of a block, which share the terms of a product evenly; less than 8 do not fit."""
    count = most
    while count > 1 and (config.d_model % (_RUN * count) or config.decoder_ffn_dim % (_RUN * count)):
        count //= 2
    return count


def fits(config: NllbConfig) -> bool:
    """Return whether the kernels support a decoder of these widths."""
    return config.d_model == HEAD * config.decoder_attention_heads and warps(config) >= 8


def constants(config: NllbConfig, bits: int, tiles: int, count: int) -> str:
    """Return the definitions that products.h expects.

    Args:
        config: Of the network.
        bits: Of the weights, 0 where they are bfloat16.
        tiles: Groups of eight rows.
        count: Warps of a block.
    """
    values = {
        "HIDDEN": config.d_model,
        "HEADS": config.decoder_attention_heads,
        "INNER": config.decoder_ffn_dim,
        "LAYERS": config.decoder_layers,
        "EMBED_SCALE": f"{config.embedding_scale!r}f",
        "BITS": bits or 16,
        "TILES": tiles,
        "WARPS": count,
    }
    return "".join(f"#define {name} {value}\n" for name, value in values.items())


def shared_bytes(config: NllbConfig, tiles: int, count: int) -> int:
    """Return the bytes of SHARED_FLOATS in products.h."""
    columns = 8 * tiles
    return columns * (config.d_model + 32) * 2 + 4 * count * max(min(columns, 16) * 20, HEAD + 2)


def exchange_floats(config: NllbConfig, tiles: int, blocks: int) -> int:
    """Return the floats that blocks exchange: see products.h."""
    columns = 8 * tiles
    return columns * (2 * config.d_model + (config.d_model + config.decoder_ffn_dim) // 2 + 2 * blocks)


def joined(*names: str) -> str:
    """Return the files of these names, one after the other."""
    return "".join(read(Path(__file__).with_name(name)) for name in names)


def matrix(name: str, bits: int) -> str:
    """Return a Matrix of products.h of the arrays `name`."""
    shared = f"(GLOBAL const ushort*){name}_scales, (GLOBAL const ushort*){name}_offsets" if bits else "0, 0"
    return f"{{(GLOBAL const uint*){name}, {shared}}}"
