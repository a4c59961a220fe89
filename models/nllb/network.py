"""NLLB's network: a pre-norm Transformer encoder and decoder (M2M100, arXiv:2010.11125), tied embeddings.

Attributes have the names of transformers' parameters, less the leading `model.`; `lower` then joins projections of the
same input. Arrays are [batch, length, channels]. The decoder writes into keys and values allocated once for a whole
translation, [B, 2 * heads, T, size] a layer (keys, then values), so that every step has the same shapes.

Each part has its plain definition, `..._reference`, and the same by CUDA kernels, `..._cuda`; `Nllb` chooses.
"""

from __future__ import annotations

from mlx import nn

from models.backend import mx
from models.layers.attention import sinusoids, split_heads
from models.layers.kernels.device import gpu
from models.layers.linear import Projection
from models.native import kernels
from models.native.transformer import Before
from models.nllb.config import NllbConfig
from models.nllb.kernels import step
from models.nllb.vocabulary import Vocabulary

FIRST_POSITION = 2  # fairseq counts positions from the padding token's id on


class M2M100Attention(nn.Module):
    """Projections of an attention from C to C channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (Projection(width, width) for _ in range(4))

    def join_inputs(self) -> None:
        """Replace queries, keys and values, of one input each, by one projection `qkv_proj`."""
        self.qkv_proj = Projection.join([self.pop(name) for name in ("q_proj", "k_proj", "v_proj")])


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each behind a LayerNorm and added to its input."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.heads = config.encoder_attention_heads
        self.self_attn = M2M100Attention(config.d_model)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.fc1 = Projection(config.d_model, config.encoder_ffn_dim)
        self.fc2 = Projection(config.encoder_ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)

    def encode_reference(self, x: mx.array, bias: mx.array) -> mx.array:
        """x [B, S, C] and the padding's bias [B, 1, 1, S] -> [B, S, C]."""
        qkv = self.self_attn.qkv_proj.after(x, norm=self.self_attn_layer_norm)
        x = self.self_attn.out_proj.after(step.attend(qkv, bias, self.heads), add=x)
        return self.fc2.after(self.fc1.after(x, norm=self.final_layer_norm), before=Before.RELU, add=x)

    def encode_cuda(
        self, x: mx.array, normal: mx.array, bias: mx.array, after: nn.LayerNorm
    ) -> tuple[mx.array, mx.array]:
        """x and `normal`, its norm -> the layer's output and its norm by `after`."""
        y = step.attend_cuda(self.self_attn.qkv_proj(normal), bias, self.heads)
        x, normal = step.add_norm_cuda(x, self.self_attn.out_proj(y), self.final_layer_norm)
        return step.add_norm_cuda(x, self.fc2(mx.maximum(self.fc1(normal), 0)), after)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, and feed-forward."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.heads = config.decoder_attention_heads
        self.self_attn = M2M100Attention(config.d_model)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.encoder_attn = M2M100Attention(config.d_model)
        self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.fc1 = Projection(config.d_model, config.decoder_ffn_dim)
        self.fc2 = Projection(config.decoder_ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)

    def step_reference(
        self, x: mx.array, place: mx.array, past: mx.array, bias: mx.array, memory: mx.array, memory_bias: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Run the layer on n new tokens.

        Args:
            x: [B, n, C], the tokens at positions place [1], place + 1, ...
            place: int32 [1].
            past: Keys and values [B, 2 * heads, T, C / heads] of what was decoded.
            bias: [n, T], minus infinity where a token may not look.
            memory: Keys and values [B, 2 * heads, S, C / heads] of the encoder's output.
            memory_bias: [B, 1, 1, S], minus infinity on padding.

        Returns:
            The layer's output [B, n, C], and `past` with the new keys and values written in.
        """
        qkv = self.self_attn.qkv_proj.after(x, norm=self.self_attn_layer_norm)
        y, past = step.self_attend(qkv, past, place, bias, self.heads)
        x = self.self_attn.out_proj.after(y, add=x)
        q = self.encoder_attn.q_proj.after(x, norm=self.encoder_attn_layer_norm)
        x = self.encoder_attn.out_proj.after(step.cross_attend(q, memory, memory_bias, self.heads), add=x)
        return self.fc2.after(self.fc1.after(x, norm=self.final_layer_norm), before=Before.RELU, add=x), past

    def step_cuda_few(
        self, x: mx.array, at: mx.array, past: mx.array, memory: mx.array, memory_bias: mx.array
    ) -> tuple[mx.array, mx.array]:
        """Run the layer by CUDA kernels alone, for few rows; `at` is the copy of `place` from `step.embed_cuda`."""
        attn, cross = self.self_attn, self.encoder_attn
        qkv = step.dense_cuda(x, attn.qkv_proj, norm=self.self_attn_layer_norm)
        y, past = step.self_attend_cuda(qkv, past, at, self.heads)
        x = step.dense_cuda(y, attn.out_proj, add=x)
        y = step.cross_attend_cuda(x, memory, memory_bias, self.heads, self.encoder_attn_layer_norm, cross.q_proj)
        x = step.dense_cuda(y, cross.out_proj, add=x)
        y = step.dense_cuda(x, self.fc1, norm=self.final_layer_norm, relu=True)
        return step.dense_cuda(y, self.fc2, add=x), past

    def step_cuda_many(
        self,
        x: mx.array,
        normal: mx.array,
        at: mx.array,
        past: mx.array,
        memory: mx.array,
        memory_bias: mx.array,
        after: nn.LayerNorm,
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Run the layer with CUDA kernels between the products; `normal`, `after` as in `EncoderLayer.encode_cuda`."""
        attn, cross = self.self_attn, self.encoder_attn
        y, past = step.self_attend_cuda(attn.qkv_proj(normal), past, at, self.heads)
        x, normal = step.add_norm_cuda(x, attn.out_proj(y), self.encoder_attn_layer_norm)
        q = cross.q_proj(normal)
        y = step.cross_attend_cuda(q, memory, memory_bias, self.heads, self.encoder_attn_layer_norm)
        x, normal = step.add_norm_cuda(x, cross.out_proj(y), self.final_layer_norm)
        return *step.add_norm_cuda(x, self.fc2(mx.maximum(self.fc1(normal), 0)), after), past


class M2M100Encoder(nn.Module):
    """Token embeddings [B, S, C] and the padding's bias [B, 1, 1, S] -> [B, S, C]."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.layers = [EncoderLayer(config) for _ in range(config.encoder_layers)]
        self.layer_norm = nn.LayerNorm(config.d_model)

    def encode_reference(self, x: mx.array, bias: mx.array) -> mx.array:
        """Run all layers by MLX's operations."""
        for layer in self.layers:
            x = layer.encode_reference(x, bias)
        result: mx.array = self.layer_norm(x)
        return result

    def encode_cuda(self, x: mx.array, bias: mx.array) -> mx.array:
        """Run all layers with CUDA kernels between the products."""
        following = [*(layer.self_attn_layer_norm for layer in self.layers[1:]), self.layer_norm]
        normal: mx.array = self.layers[0].self_attn_layer_norm(x)
        for layer, after in zip(self.layers, following, strict=True):
            x, normal = layer.encode_cuda(x, normal, bias, after)
        return normal


class M2M100Decoder(nn.Module):
    """All layers; once lowered, one product makes every layer's cross-attention keys and values."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.heads = config.decoder_attention_heads
        self.layers = [DecoderLayer(config) for _ in range(config.decoder_layers)]
        self.layer_norm = nn.LayerNorm(config.d_model)

    def join_memory(self) -> None:
        """Replace every layer's projections of the encoder's output by one, `memory_proj`."""
        parts = [layer.encoder_attn.pop(name) for layer in self.layers for name in ("k_proj", "v_proj")]
        self.memory_proj = Projection.join(parts)

    def memories(self, encoded: mx.array) -> list[mx.array]:
        """Encoder output [B, S, C] -> keys and values [B, 2 * heads, S, C / heads] of each layer."""
        wide = split_heads(self.memory_proj(encoded), 2 * len(self.layers), self.heads)
        if encoded.shape[0] == 1:  # one copy, whose parts are contiguous
            wide = mx.contiguous(wide)
        return [mx.contiguous(part) for part in mx.split(wide, len(self.layers), axis=1)]

    def step_reference(
        self, x: mx.array, place: mx.array, past: list[mx.array], memory: list[mx.array], memory_bias: mx.array
    ) -> tuple[mx.array, list[mx.array]]:
        """Run all layers by MLX's operations; arguments as in `DecoderLayer.step_reference`, a list entry a layer."""
        rows = place + mx.arange(x.shape[1])
        bias = mx.where(mx.arange(past[0].shape[2]) <= rows[:, None], 0.0, float("-inf")).astype(x.dtype)
        written = []
        for layer, before, read in zip(self.layers, past, memory, strict=True):
            x, after = layer.step_reference(x, place, before, bias, read, memory_bias)
            written.append(after)
        return self.layer_norm(x), written

    def step_cuda(
        self, x: mx.array, at: mx.array, past: list[mx.array], memory: list[mx.array], memory_bias: mx.array
    ) -> tuple[mx.array, list[mx.array]]:
        """Run all layers by CUDA kernels; BLAS multiplies more than a few rows."""
        written = []
        if step.rows(x) <= step.FEW:
            for layer, before, read in zip(self.layers, past, memory, strict=True):
                x, kept = layer.step_cuda_few(x, at, before, read, memory_bias)
                written.append(kept)
            return self.layer_norm(x), written
        following = [*(layer.self_attn_layer_norm for layer in self.layers[1:]), self.layer_norm]
        normal: mx.array = self.layers[0].self_attn_layer_norm(x)
        for layer, after, before, read in zip(self.layers, following, past, memory, strict=True):
            x, normal, kept = layer.step_cuda_many(x, normal, at, before, read, memory_bias, after)
            written.append(kept)
        return normal, written


class Nllb(nn.Module):
    """Whole network. `search` runs `encode` once and `advance` a token at a time."""

    def __init__(self, config: NllbConfig) -> None:
        super().__init__()
        self.config = config
        self.shared = Vocabulary(config)
        self.encoder = M2M100Encoder(config)
        self.decoder = M2M100Decoder(config)
        positions = sinusoids(config.max_position_embeddings, config.d_model, FIRST_POSITION)
        self._positions = mx.array(positions)
        self.bits = 0
        sides = (config.decoder_attention_heads, config.decoder_ffn_dim), (config.encoder_attention_heads, 64)
        self.fused = gpu() == "cuda" and all(step.fits(config.d_model, *side) for side in sides)

    @property
    def dtype(self) -> mx.Dtype:
        """Return the type of the activations."""
        return self.encoder.layer_norm.weight.dtype

    def lower(self, bits: int = 0) -> None:
        """Bring every product into the device's order, once, after loading; `bits` 8 or 4 quantizes the weights."""
        native = kernels.available() and self.dtype == mx.float32
        self.bits = 0 if native else bits  # of MLX's quantization
        self._positions = self._positions.astype(self.dtype)
        mx.eval(self._positions)
        self.shared.lower(bits)  # the largest first: the memory of what it was serves the others
        for layer in (*self.encoder.layers, *self.decoder.layers):
            layer.self_attn.join_inputs()
        self.decoder.join_memory()
        for _, module in self.named_modules():
            if isinstance(module, Projection):
                module.lower(bits)
        mx.eval(self.parameters())

    def encode(self, ids: mx.array, counts: mx.array) -> tuple[mx.array, mx.array]:
        """ids [B, S], of which the first counts [B] of each row are real -> [B, S, C] and the bias [B, 1, 1, S]."""
        bias = self.padding(ids, counts)
        x = self.shared.embed(ids) + self._positions[: ids.shape[1]]
        cuda = self.fused and step.attends(ids.shape[1])
        return self.encoder.encode_cuda(x, bias) if cuda else self.encoder.encode_reference(x, bias), bias

    def padding(self, ids: mx.array, counts: mx.array) -> mx.array:
        """Return the bias [B, 1, 1, S] of ids [B, S]: minus infinity behind the first counts [B] of each row."""
        real = mx.arange(ids.shape[1]) < counts[:, None]
        return mx.where(real, 0.0, float("-inf")).astype(self.dtype)[:, None, None]

    def allocate(self, batch: int, length: int, *, written: bool = False) -> list[mx.array]:
        """Return zeros [batch, 2 * heads, length, size] a layer for the keys and values of `length` decoded tokens.

        With `written` a step may write into them: they are parts of one array, which no other group has.
        """
        heads = self.config.decoder_attention_heads
        shape = (batch, 2 * heads, length, self.config.d_model // heads)
        layers = len(self.decoder.layers)
        if written:
            return list(mx.zeros((layers, *shape), dtype=self.dtype))
        if self.fused:  # the kernels copy their input: all layers may start from one array
            return [mx.zeros(shape, dtype=self.dtype)] * layers
        return [mx.zeros(shape, dtype=self.dtype) for _ in range(layers)]

    def advance(
        self, ids: mx.array, place: mx.array, past: list[mx.array], memory: list[mx.array], memory_bias: mx.array
    ) -> tuple[mx.array, list[mx.array]]:
        """Decode ids [B, n] at positions place [1] on -> the last layer's output [B, n, C] and the new `past`."""
        if self.fused:
            x, at = self.shared.embed_at(ids, place, self._positions)
            return self.decoder.step_cuda(x, at, past, memory, memory_bias)
        positions = mx.take(self._positions, place + mx.arange(ids.shape[1]), axis=0)
        x = self.shared.embed(ids) + positions
        return self.decoder.step_reference(x, place, past, memory, memory_bias)
