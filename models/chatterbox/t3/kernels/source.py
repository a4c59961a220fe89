"""Source of the kernels: the headers, after the constants of one network and the definitions of one device."""

from __future__ import annotations

from models.chatterbox.config import T3Config
from models.layers.kernels.device import defines

HEAD = 64
PHASES = ("rows.h", "phases.h", "attention.h")
WARPS = 16  # a block
AHEAD = (6, 5, 8, 8)  # of eight reads each: see loadtest/results/chatterbox.md
_MAX_SPLITS = 8
_SHARED_BYTES = 48 << 10  # of a block, without asking the driver for more


def fits(config: T3Config, batch: int) -> bool:
    """True if the kernels can run this network: their products read rows in runs of 256 weights, or four of them.

    GPT-2's products and head have biases, and its positions are the cache's. Llama's have none, and count the speech.
    """
    return (
        (config.backbone, config.learned_positions, config.head_bias) in (("llama", True, False), ("gpt2", False, True))
        and config.hidden == config.heads * HEAD
        and config.hidden % 1024 == 0
        and config.inner % 1024 == 0
        and batch in (1, 2)
        and 4 * batch * max(config.hidden, config.inner) + 2048 <= _SHARED_BYTES
    )


def splits(config: T3Config, batch: int, blocks: int) -> int:
    """Return the number of parts in which the cache is attended, so that heads and rows keep `blocks` blocks busy."""
    return max(1, min(_MAX_SPLITS, blocks // (batch * config.heads)))


def constants(
    config: T3Config,
    batch: int,
    blocks: int,
    *,
    bits: int = 0,
    warps: int = WARPS,
    pieces: int = 1,
    ahead: tuple[int, int, int, int] = AHEAD,
) -> str:
    """Return the definitions that rows.h expects.

    Args:
        config: the network.
        batch: rows, 1 or 2.
        blocks: blocks of the grid.
        bits: of the weights, 8, or 0 for bfloat16.
        warps: of a block.
        pieces: parts of the inner row.
        ahead: reads that are sent ahead for queries, keys and values; the gate; the way down; and the logits.
    """
    llama, gpt2 = int(config.backbone == "llama"), int(config.backbone == "gpt2")
    values: dict[str, object] = {
        "HIDDEN": config.hidden,
        "HEADS": config.heads,
        "INNER": config.inner,
        "LAYERS": config.layers,
        "BATCH": batch,
        "VOCABULARY": config.speech_vocabulary,
        "EPSILON": f"{config.norm_eps!r}f",
        "BITS": bits or 16,
        "BIASED": gpt2,
        "ROTARY": llama,
        "GATED": llama,
        "ABSOLUTE": gpt2,
        "WARPS": warps,
        "SPLITS": splits(config, batch, blocks),
        "PIECES": pieces,
        "PROJECT_AHEAD": ahead[0],
        "GATE_AHEAD": ahead[1],
        "DOWN_AHEAD": ahead[2],
        "HEAD_AHEAD": ahead[3],
    }
    return defines(values)


def exchange_floats(config: T3Config, batch: int, blocks: int) -> int:
    """Return EXCHANGE_FLOATS of rows.h: stream, a head's words, attention's parts and their weights, the wide row."""
    parts = batch * config.heads * splits(config, batch, blocks)
    return batch * (5 * config.hidden + config.inner // 2) + parts * (HEAD // 2 + 2)
