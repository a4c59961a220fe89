"""PL-BERT: an ALBERT over phonemes (arXiv:1909.11942), whose one layer is applied several times.

Attributes have the names of transformers' parameters. Li et al. 2023 (PL-BERT, arXiv:2301.08810).
"""

from __future__ import annotations

from mlx import nn

from models.backend import mx
from models.kokoro import encoder_kernel
from models.kokoro.config import AlbertConfig
from models.layers.activation import gelu_tanh
from models.layers.conv import PaddingMask
from models.layers.kernels.agreement import relative_difference, usable
from models.layers.linear import Linear
from models.native import kernels


class AlbertEmbeddings(nn.Module):
    """Token ids [B, T] -> [B, T, embedding]: sum of the token's, position's and type's embedding, with LayerNorm."""

    def __init__(self, config: AlbertConfig, tokens: int) -> None:
        super().__init__()
        width = config.embedding_size
        self.word_embeddings = nn.Embedding(tokens, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def __call__(self, ids: mx.array) -> mx.array:
        x = self.word_embeddings(ids) + self.position_embeddings.weight[: ids.shape[1]]
        result: mx.array = self.LayerNorm(x + self.token_type_embeddings.weight[:1])
        return result


class AlbertAttention(nn.Module):
    """Softmax attention with `heads` heads over x [B, T, C], added to x, and LayerNorm.

    `lower()`, once after loading, joins queries, keys and values into one product.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))
        self.dense = Linear(width, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def lower(self) -> None:
        """Replace `query`, `key` and `value` by one layer `qkv`, and lower it and `dense` for the device."""
        if "qkv" not in self:
            parts = [self.pop(name) for name in ("query", "key", "value")]
            self.qkv = Linear(parts[0].weight.shape[1], 3 * parts[0].weight.shape[0])
            self.qkv.weight = mx.concatenate([part.weight for part in parts])
            self.qkv.bias = mx.concatenate([part.bias for part in parts])
        self.qkv.lower()
        self.dense.lower()

    def __call__(self, x: mx.array, bias: mx.array | None = None) -> mx.array:
        result: mx.array = self.LayerNorm(x + self.attend(x, bias))
        return result

    def attend(self, x: mx.array, bias: mx.array | None = None) -> mx.array:
        """Return the attention of x alone, [B, T, C].

        `bias`, added to the logits, is [B, 1, 1, T] or None: minus infinity on padded keys.
        """
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, size).transpose(2, 0, 3, 1, 4)
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=size**-0.5, mask=bias)
        return self.dense(y.transpose(0, 2, 1, 3).reshape(batch, length, width))


class AlbertLayer(nn.Module):
    """Attention and feed-forward, a LayerNorm after each."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.attention = AlbertAttention(hidden, config.num_attention_heads)
        self.ffn = Linear(hidden, config.intermediate_size)
        self.ffn_output = Linear(config.intermediate_size, hidden)
        self.full_layer_layer_norm = nn.LayerNorm(hidden, eps=1e-12)

    def __call__(self, x: mx.array, bias: mx.array | None) -> mx.array:
        x = self.attention(x, bias)
        result: mx.array = self.full_layer_layer_norm(x + self.ffn_output(gelu_tanh(self.ffn(x))))
        return result


class AlbertLayerGroup(nn.Module):
    """Group of layers by the reference's name; PL-BERT has one group with one layer."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.albert_layers = [AlbertLayer(config)]


class AlbertEncoder(nn.Module):
    """Embeddings [B, T, embedding] -> [B, T, hidden] by one layer, applied `depth` times."""

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__()
        self.embedding_hidden_mapping_in = Linear(config.embedding_size, config.hidden_size)
        self.albert_layer_groups = [AlbertLayerGroup(config)]
        self.depth = config.num_hidden_layers
        self._packed: kernels.PackedEncoder | None = None

    def lower(self) -> None:
        """Hand the layer, once its parts are lowered, to the native kernel where it has all of them."""
        layer = self.albert_layer_groups[0].albert_layers[0]
        attention, norms = layer.attention, (layer.attention.LayerNorm, layer.full_layer_layer_norm)
        attention.lower()
        dense = [attention.qkv, attention.dense, layer.ffn, layer.ffn_output]
        for each in dense:
            each.lower()
        if all(each.packed is not None for each in dense):
            pairs = [dense[0], dense[1], norms[0], *dense[2:], norms[1]]
            arrays = tuple(array for each in pairs for array in (each.weight, each.bias))
            self._packed = kernels.PackedEncoder(arrays, attention.heads, self.depth, norms[0].eps)

    def __call__(self, x: mx.array, valid: PaddingMask) -> mx.array:
        x = self.embedding_hidden_mapping_in(x)
        if self._packed is not None:
            return kernels.encode(self._packed, x, valid.counts)
        layer = self.albert_layer_groups[0].albert_layers[0]
        inner = layer.ffn.weight.shape[0]
        if encoder_kernel.fits(x, layer.attention.heads, inner) and usable("PL-BERT's kernel", self._differences):
            return self.encode_kernel(x, valid)
        return self.encode_reference(x, valid)

    def encode_reference(self, x: mx.array, valid: PaddingMask) -> mx.array:
        """Return x [B, T, hidden] after all layers, by plain operations."""
        bias = None
        if valid.mask is not None:
            bias = mx.where(valid.mask > 0, 0.0, float("-inf")).transpose(0, 2, 1)[:, None]
        layer = self.albert_layer_groups[0].albert_layers[0]
        for _ in range(self.depth):
            x = layer(x, bias)
        return x

    def encode_kernel(self, x: mx.array, valid: PaddingMask, blocks: int = 0) -> mx.array:
        """Return `encode_reference` by one kernel, only where it `fits`; its grid may have other `blocks`."""
        layer = self.albert_layer_groups[0].albert_layers[0]
        attention, norms = layer.attention, (layer.attention.LayerNorm, layer.full_layer_layer_norm)
        parts = [attention.qkv, attention.dense, norms[0], layer.ffn, layer.ffn_output, norms[1]]
        weights = [array for part in parts for array in (part.weight, part.bias)]
        return encoder_kernel.encode(x, valid.number(x), weights, self.depth, blocks)

    def _differences(self) -> list[float]:
        """Return the kernel's difference from the plain operations, on two sequences, one of them padded."""
        width = self.embedding_hidden_mapping_in.bias.size
        x = mx.random.normal((2, 16, width), key=mx.random.key(0))
        valid = PaddingMask.of(mx.array([16, 5])[:, None, None], 16)
        found, wanted = self.encode_kernel(x, valid), self.encode_reference(x, valid)
        return [relative_difference(valid.zero(found), valid.zero(wanted))]


class Albert(nn.Module):
    """PL-BERT: token ids [B, T] -> [B, T, hidden] (ALBERT, arXiv:1909.11942)."""

    def __init__(self, config: AlbertConfig, tokens: int) -> None:
        super().__init__()
        self.embeddings = AlbertEmbeddings(config, tokens)
        self.encoder = AlbertEncoder(config)

    def __call__(self, ids: mx.array, valid: PaddingMask) -> mx.array:
        return self.encoder(self.embeddings(ids), valid)
