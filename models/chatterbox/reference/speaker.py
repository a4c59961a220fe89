"""CAM++: Kaldi filterbanks to a speaker vector for S3Gen.

Wang et al. 2023, "CAM++: A Fast and Efficient Network for Speaker Verification Using Context-Aware Masking",
arXiv:2303.00332; numbers from chatterbox 0.1.7 models/s3gen/xvector.py. `weights` folds batch normalization into the
product before it. Where it stands before a product, or where roundings would show, it is a `Nonlinear` here.
"""

from __future__ import annotations

from mlx import nn

from models.backend import mx
from models.chatterbox.config import SpeakerConfig
from models.layers.conv import Conv1d
from models.layers.linear import Linear

HEAD = 32  # channels of the two-dimensional convolutions
_HEAD_FOLD = 8  # filterbanks that end in one row
_SEGMENT = 100  # frames that share a context
_DILATIONS = (1, 2, 2)


def _relu(x: mx.array) -> mx.array:
    return mx.maximum(x, 0)


class Plane(nn.Module):
    """Convolution over time and frequency: x [B, T, F, I] -> [B, T, ceil(F / stride), O].

    `weight` [O, time, frequency, I], `bias` [O].
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.weight = mx.zeros((outputs, kernel, kernel, inputs))
        self.bias = mx.zeros((outputs,))
        self._stride, self._padding = (1, stride), kernel // 2

    def __call__(self, x: mx.array) -> mx.array:
        return mx.conv2d(x, self.weight, self._stride, self._padding) + self.bias


class Residual(nn.Module):
    """Two planes and a shortcut, which has weights where the frequency is halved."""

    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Plane(width, width, stride=stride)
        self.conv2 = Plane(width, width)
        if stride > 1:
            self.shortcut = Plane(width, width, 1, stride)

    def __call__(self, x: mx.array) -> mx.array:
        y = self.conv2(_relu(self.conv1(x)))
        return _relu(y + (self.shortcut(x) if "shortcut" in self else x))


class FCM(nn.Module):
    """Filterbanks [B, T, F] -> [B, T, 32 * F / 8], channels outermost."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = Plane(1, HEAD)
        self.layer1, self.layer2 = ([Residual(HEAD, stride) for stride in (2, 1)] for _ in range(2))
        self.conv2 = Plane(HEAD, HEAD, stride=2)

    def __call__(self, x: mx.array) -> mx.array:
        x = _relu(self.conv1(x[..., None]))
        for block in (*self.layer1, *self.layer2):
            x = block(x)
        return _relu(self.conv2(x)).transpose(0, 1, 3, 2).reshape(*x.shape[:2], -1)


class Nonlinear(nn.Module):
    """relu(scale * x + shift), each [C]: batch normalization that is not folded into a product."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = mx.ones((width,))
        self.shift = mx.zeros((width,))

    def __call__(self, x: mx.array) -> mx.array:
        return _relu(x * self.scale + self.shift)


class CamLayer(nn.Module):
    """Convolution, each output weighted by a mask made of its segment's mean and of the whole recording's."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.linear_local = Conv1d(inputs, outputs, 3, padding=dilation, dilation=dilation, bias=False)
        self.linear1 = Linear(inputs, inputs // 2)
        self.linear2 = Linear(inputs // 2, outputs)

    def __call__(self, x: mx.array) -> mx.array:
        """x [B, T, I] -> [B, T, O]."""
        context = mx.mean(x, axis=1, keepdims=True) + segment_means(x)
        mask = mx.sigmoid(self.linear2(_relu(self.linear1(context))))
        return self.linear_local(x) * mx.repeat(mask, _SEGMENT, axis=1)[:, : x.shape[1]]


class Dense(nn.Module):
    """One layer of a densely connected block: x [B, T, C] -> the `growth` channels that it adds."""

    def __init__(self, inputs: int, config: SpeakerConfig, dilation: int) -> None:
        super().__init__()
        width = config.bottleneck * config.growth
        self.nonlinear1 = Nonlinear(inputs)
        self.linear1 = nn.Linear(inputs, width, bias=False)
        # Not folded into `linear1`: the rounding of weights is the same in every frame, so that means over time keep
        # it, and gates amplify it.
        self.nonlinear2 = Nonlinear(width)
        self.cam_layer = CamLayer(width, config.growth, dilation)

    def __call__(self, x: mx.array) -> mx.array:
        return self.cam_layer(self.nonlinear2(self.nonlinear1(x) @ self.linear1.weight.T))


def segment_means(x: mx.array) -> mx.array:
    """Average segments of 100 frames: x [B, T, C] -> [B, ceil(T / 100), C], the last of the frames that are left."""
    batch, length, width = x.shape
    count = -(-length // _SEGMENT)
    sums = (
        mx.pad(x, [(0, 0), (0, count * _SEGMENT - length), (0, 0)]).reshape(batch, count, _SEGMENT, width).sum(axis=2)
    )
    sizes = mx.minimum(_SEGMENT, length - mx.arange(count) * _SEGMENT)
    return sums / sizes[:, None]


class Transit(nn.Module):
    """Halves the channels between blocks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.nonlinear = Nonlinear(width)
        self.linear = nn.Linear(width, width // 2, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        return self.nonlinear(x) @ self.linear.weight.T


class SpeakerEncoder(nn.Module):
    """Filterbanks [B, T, mels] without their mean, T > 2 -> speaker vectors [B, size], of no particular length."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        self.head = FCM()
        self.tdnn = Conv1d(HEAD * (config.mels // _HEAD_FOLD), config.width, 5, stride=2, padding=2)
        self.blocks, self.transits = [], []
        width = config.width
        for count, dilation in zip(config.blocks, _DILATIONS, strict=True):
            self.blocks.append([Dense(width + k * config.growth, config, dilation) for k in range(count)])
            width += count * config.growth
            self.transits.append(Transit(width))
            width //= 2
        self.out_nonlinear = Nonlinear(width)
        self.dense = Linear(2 * width, config.size)

    def __call__(self, x: mx.array) -> mx.array:
        x = _relu(self.tdnn(self.head(x)))
        for block, transit in zip(self.blocks, self.transits, strict=True):
            for layer in block:
                x = mx.concatenate([x, layer(x)], axis=-1)
            x = transit(x)
        x = self.out_nonlinear(x)
        spread = mx.sqrt(mx.var(x, axis=1, ddof=1))
        return self.dense(mx.concatenate([mx.mean(x, axis=1), spread], axis=-1))
