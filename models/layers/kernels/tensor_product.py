"""Products on the tensor cores of an NVIDIA GPU: what kernels that include tensor_product.h share."""

from __future__ import annotations

from models.backend import mx
from models.layers.kernels.device import joined

COPIES, PRODUCT = (joined(__file__, name) for name in ("cuda_copies.h", "tensor_product.h"))
"""Headers, in this order."""
PIECES = 24  # of a warp's weights on their way to a product, unless the header says otherwise
PIECE_BYTES = 8 * 32 * 16  # of all warps: a lane's 16 bytes
RING_BYTES = PIECES * PIECE_BYTES
MAX_SHARED_BYTES = 227 << 10  # of a block, on Hopper; a GPU that has less refuses the launch
ROOM = "extern __shared__ __align__(16) unsigned char room[];"


def pieces(matrix: mx.array) -> mx.array:
    """Bring a matrix [O, ...], sizes multiples of 8 and 64, into the order in which warps read it: [O, I].

    The second factor of a tensor core's product [16, 8] lies in two registers of each lane: column lane / 4, terms
    lane % 4 * 2 and the next, then eight more. A lane has those of two products one after the other.
    """
    rows = matrix.shape[0]
    flat = matrix.reshape(rows, -1)
    split = flat.reshape(rows // 8, 8, -1, 2, 2, 2, 4, 2).transpose(0, 2, 3, 1, 6, 4, 5, 7)
    return mx.contiguous(split).reshape(flat.shape)
