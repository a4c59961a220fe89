"""Products on the tensor cores of an NVIDIA GPU: what kernels that include tensor_product.h share."""

from __future__ import annotations

from pathlib import Path

from models.backend import mx
from models.layers.kernels.device import read

COPIES, PRODUCT = (read(Path(__file__).with_name(name)) for name in ("cuda_copies.h", "tensor_product.h"))
"""Headers, in this order."""
PIECES = 24  # of a warp's weights on their way to a product, unless the header says otherwise
PIECE_BYTES = 8 * 32 * 16  # of all warps: a lane's 16 bytes
RING_BYTES = PIECES * PIECE_BYTES
MOST_SHARED = 227 << 10  # of a block, on Hopper; a GPU that has less refuses the launch
ROOM = "extern __shared__ __align__(16) unsigned char room[];"


def pieces(matrix: mx.array) -> mx.array:
    """Bring a matrix [O, ...], sizes multiples of 8 and 64, into the order of `place` (tensor_product.h): [O, I]."""
    rows = matrix.shape[0]
    flat = matrix.reshape(rows, -1)
    split = flat.reshape(rows // 8, 8, -1, 4, 2, 8).transpose(0, 2, 4, 1, 3, 5)
    return mx.contiguous(split).reshape(flat.shape)
