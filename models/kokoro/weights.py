"""From a checkpoint's arrays to the network's: pure renaming and folding, strict.

Three dialects are read: the official `.pth` (weight norm unfolded, five state dicts, `module.` prefixes), the MLX
community's safetensors (the same names, LSTMs as Wx/Wh, some convolutions channels-last), and this project's own
safetensors (the network's names).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.checkpoint import raise_problems
from models.contract import WeightsError
from models.kokoro.network import Kokoro
from models.layers import weight_norm

# Reference name -> ours. The first pattern that matches names the array.
_RENAMES: list[tuple[str, str]] = [
    (r"bert\.embeddings\.LayerNorm\.(.*)", r"bert.embedding_norm.\1"),
    (r"bert\.embeddings\.(.*)", r"bert.\1"),
    (r"bert\.encoder\.embedding_hidden_mapping_in\.(.*)", r"bert.mapping.\1"),
    (r"bert\.encoder\.albert_layer_groups\.0\.albert_layers\.0\.attention\.LayerNorm\.(.*)", r"bert.attention_norm.\1"),
    (r"bert\.encoder\.albert_layer_groups\.0\.albert_layers\.0\.attention\.dense\.(.*)", r"bert.attention.out.\1"),
    (r"bert\.encoder\.albert_layer_groups\.0\.albert_layers\.0\.full_layer_layer_norm\.(.*)", r"bert.ffn_norm.\1"),
    (r"bert\.encoder\.albert_layer_groups\.0\.albert_layers\.0\.(.*)", r"bert.\1"),
    (r"text_encoder\.cnn\.(\d+)\.0\.(.*)", r"text_encoder.cnn.\1.conv.\2"),
    (r"text_encoder\.cnn\.(\d+)\.1\.(?:gamma|weight)", r"text_encoder.cnn.\1.norm.weight"),
    (r"text_encoder\.cnn\.(\d+)\.1\.(?:beta|bias)", r"text_encoder.cnn.\1.norm.bias"),
    (r"predictor\.duration_proj\.linear_layer\.(.*)", r"predictor.duration_proj.\1"),
    (r"decoder\.asr_res\.0\.(.*)", r"decoder.asr_res.\1"),
    (r"decoder\.generator\.m_source\.l_linear\.(.*)", r"decoder.generator.source.merge.\1"),
    (r"(.*\.norm[12])\.fc\.(.*)", r"\1.\2"),
]
_UNIT = re.compile(r"(decoder\.generator\.(?:noise_res|resblocks))\.(\d+)\.(convs|adain|alpha)([12])\.(\d+)(.*)")
_DURATION = re.compile(r"predictor\.text_encoder\.lstms\.(\d+)\.(.*)")
_QKV = re.compile(r"(bert)\.attention\.(query|key|value)\.(weight|bias)")
_LSTM = re.compile(r"(.*)\.(?:(weight|bias)_(ih|hh)_l0(_reverse)?|(Wx|Wh|bias_ih|bias_hh)_(forward|backward))")
# Arrays that no inference reads.
_DROPPED = re.compile(r"bert\.pooler\..*|bert\.embeddings\.(position_ids|token_type_ids)|decoder\.generator\.stft\..*")
_INSTANCE_NORM = re.compile(r".*\.(?:norm[12]|adain[12]\.\d+)\.norm\.(weight|bias)")


def load_weights(network: Kokoro, arrays: Mapping[str, mx.array], source: str) -> None:
    """Put `arrays` into `network`, as float32, and lower it for this device.

    Raises WeightsError naming every array that is missing, extra or misshapen.
    """
    found = convert(arrays, len(network.decoder.generator.resblocks[0]), source)
    wanted = dict(tree_flatten(network.parameters()))
    problems = [f"missing {name} {wanted[name].shape}" for name in sorted(set(wanted) - set(found))]
    problems += [f"unexpected {name} {found[name].shape}" for name in sorted(set(found) - set(wanted))]
    channels_last = any(name.endswith((".Wx_forward", ".wx")) for name in arrays)
    ready = {}
    for name in set(wanted) & set(found):
        array = _fit(found[name], wanted[name].shape, channels_last=channels_last)
        if array is None:
            problems.append(f"{name} has shape {found[name].shape}, not {wanted[name].shape}")
        else:
            ready[name] = array.astype(mx.float32)
    raise_problems(problems, source)
    network.update(tree_unflatten(list(ready.items())))
    network.lower()
    network.freeze()
    mx.eval(network.parameters())


def convert(arrays: Mapping[str, mx.array], kernels: int, source: str) -> dict[str, mx.array]:
    """Rename and fold a checkpoint of any dialect into the network's names; `kernels` residual blocks a stage."""
    plain: dict[str, mx.array] = {}
    for key, array in arrays.items():
        name = weight_norm.short_name(key.replace(".module.", "."))
        if _DROPPED.fullmatch(name):
            continue
        if match := _INSTANCE_NORM.fullmatch(name):
            _require_default_affine(array, match.group(1), name, source)
            continue
        plain[_rename(name, kernels)] = array
    return _fold_lstm(_fold_attention(weight_norm.fold(plain, source), source), source)


def _rename(name: str, kernels: int) -> str:
    if match := _UNIT.fullmatch(name):
        owner, block, kind, pair, index, rest = match.groups()
        place = block if owner.endswith("noise_res") else f"{int(block) // kernels}.{int(block) % kernels}"
        which = "first" if pair == "1" else "second"
        leaf = {"convs": ".conv", "adain": ".norm", "alpha": ".alpha"}[kind] + rest.replace(".fc", "")
        return f"{owner}.{place}.{which}.{index}{leaf}"
    if match := _DURATION.fullmatch(name):
        index, rest = int(match.group(1)), match.group(2)
        kind = "norms" if rest.startswith("fc.") else "lstms"
        # The reference interleaves LSTMs and norms in one list; ours are two lists.
        index = index if rest in ("wx", "wh", "bias") else index // 2
        return f"predictor.text_encoder.{kind}.{index}.{rest.removeprefix('fc.')}"
    for pattern, replacement in _RENAMES:
        if re.fullmatch(pattern, name):
            return re.sub(pattern, replacement, name, count=1)
    return name


def _require_default_affine(array: mx.array, kind: str, name: str, source: str) -> None:
    """The official file leaves InstanceNorm's affine out (1 and 0); the network has no place for another."""
    if not bool(mx.all(array == (1 if kind == "weight" else 0))):
        raise WeightsError(f"{source}: {name} is not {'1' if kind == 'weight' else '0'} everywhere")


def _fold_attention(arrays: dict[str, mx.array], source: str) -> dict[str, mx.array]:
    """Query, key and value projections become one."""
    folded, parts = {}, {}
    for name, array in arrays.items():
        if match := _QKV.fullmatch(name):
            parts[match.group(3), match.group(2)] = array
        else:
            folded[name] = array
    for leaf in ("weight", "bias"):
        if any(kind == leaf for kind, _ in parts):
            missing = [w for w in ("query", "key", "value") if (leaf, w) not in parts]
            if missing:
                raise WeightsError(f"{source}: bert attention lacks {', '.join(f'{m}.{leaf}' for m in missing)}")
            folded[f"bert.attention.qkv.{leaf}"] = mx.concatenate(
                [parts[leaf, which] for which in ("query", "key", "value")]
            )
    return folded


def _fold_lstm(arrays: dict[str, mx.array], source: str) -> dict[str, mx.array]:
    """Both directions' weights become one array, and torch's two biases one."""
    folded: dict[str, mx.array] = {}
    cells: dict[str, dict[tuple[str, bool], mx.array]] = {}
    for name, array in arrays.items():
        match = _LSTM.fullmatch(name)
        if match is None:
            folded[name] = array
            continue
        owner, leaf, side, reverse, mlx_leaf, direction = match.groups()
        if mlx_leaf is None:
            kind, backward = f"{leaf}_{side}", reverse is not None
        else:
            kind = {"Wx": "weight_ih", "Wh": "weight_hh"}.get(mlx_leaf, mlx_leaf)
            backward = direction == "backward"
        cells.setdefault(owner, {})[kind, backward] = array.astype(mx.float32)
    for owner, cell in cells.items():
        kinds = [(k, b) for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh") for b in (False, True)]
        missing = [f"{k}{' (backward)' if b else ''}" for k, b in kinds if (k, b) not in cell]
        if missing:
            raise WeightsError(f"{source}: {owner} lacks {', '.join(missing)}")
        both = [False, True]
        folded[f"{owner}.wx"] = mx.concatenate([cell["weight_ih", b].T for b in both], axis=1)
        folded[f"{owner}.wh"] = mx.stack([cell["weight_hh", b].T for b in both])
        folded[f"{owner}.bias"] = mx.concatenate([cell["bias_ih", b] + cell["bias_hh", b] for b in both])
    return folded


def _fit(array: mx.array, shape: tuple[int, ...], *, channels_last: bool) -> mx.array | None:
    """`array` in `shape`: as it is, channels-first convolutions turned, unit axes dropped; None if it cannot be."""
    turned = array.swapaxes(1, 2) if array.ndim == 3 else array
    first, second = (array, turned) if channels_last or array.ndim != 3 else (turned, array)
    for candidate in (first, second):
        if candidate.shape == shape:
            return candidate
    if array.ndim == 3 and tuple(n for n in array.shape if n != 1) == tuple(n for n in shape if n != 1):
        return array.reshape(shape)
    return None
