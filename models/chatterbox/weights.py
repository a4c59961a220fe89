"""Strict loading of official checkpoints into networks that carry the reference's parameter names.

A parameter without a rule is the official array of the same name and shape. A `Rule` states how another one is made:
parts that one product joins, axes in another order, normalization folded in. Renames come first, where a module has a
word for what the reference numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.checkpoint import check_shapes

Shape = tuple[int, ...]
Arrays = Mapping[str, mx.array]
Make = Callable[..., mx.array]
Rename = tuple[str, str | Callable[[re.Match[str]], str]]
"""A pattern, and its replacement as for re.sub: parameter names to official names."""


@dataclass(frozen=True, slots=True)
class ArraySource:
    """Official arrays that one parameter is made of: names and shapes, in the order in which `make` takes them."""

    parts: Mapping[str, Shape]
    make: Make


@dataclass(frozen=True, slots=True)
class Rule:
    """Source of the parameters whose renamed names match `pattern` as a whole, from the match and their shape."""

    pattern: str
    source: Callable[[re.Match[str], Shape], ArraySource]


def joined(pattern: str, *names: str) -> Rule:
    """Return the rule of a parameter that holds several official arrays of one shape, along the first axis.

    `names` are templates for `re.Match.expand`.
    """

    def source(match: re.Match[str], shape: Shape) -> ArraySource:
        part = (shape[0] // len(names), *shape[1:])
        return ArraySource({match.expand(name): part for name in names}, lambda *arrays: mx.concatenate(list(arrays)))

    return Rule(pattern, source)


def transposed(pattern: str, name: str = r"\g<0>") -> Rule:
    """Return the rule of a matrix that the reference keeps as [inputs, outputs], or the other way round."""

    def source(match: re.Match[str], shape: Shape) -> ArraySource:
        return ArraySource({match.expand(name): shape[::-1]}, lambda array: mx.contiguous(array.T))

    return Rule(pattern, source)


def channels_last(pattern: str, name: str = r"\g<0>") -> Rule:
    """Return the rule of convolutions: the reference's [O, I, K] becomes [O, K, I], its [O, I, F, T] [O, T, F, I]."""

    def source(match: re.Match[str], shape: Shape) -> ArraySource:
        return ArraySource({match.expand(name): (shape[0], *shape[:0:-1])}, turn_taps)

    return Rule(pattern, source)


def pointwise(pattern: str, name: str = r"\g<0>") -> Rule:
    """Return the rule of a convolution of one tap, [O, I, 1], that is a matrix here."""
    return Rule(
        pattern, lambda match, shape: ArraySource({match.expand(name): (*shape, 1)}, lambda array: array[..., 0])
    )


def turn_taps(array: mx.array) -> mx.array:
    """Bring the channels of a convolution's weight to the end: [O, I, K] -> [O, K, I], [O, I, F, T] -> [O, T, F, I]."""
    return mx.contiguous(array.swapaxes(1, -1))


def sources(
    network: nn.Module, rules: Sequence[Rule] = (), renames: Iterable[Rename] = (), prefix: str = ""
) -> dict[str, ArraySource]:
    """Return the source of every parameter of a network that is not lowered yet.

    Args:
        network: its parameters give names and shapes.
        rules: the first that matches applies.
        renames: all apply, in this order, before the rules.
        prefix: stands before every official name.
    """
    renames = list(renames)
    found = {}
    for name, array in dict(tree_flatten(network.parameters())).items():
        official: str = name
        for pattern, replacement in renames:
            official = re.sub(pattern, replacement, official)
        source = ArraySource({official: array.shape}, lambda array: array)
        for rule in rules:
            if match := re.fullmatch(rule.pattern, official):
                source = rule.source(match, array.shape)
                break
        found[name] = ArraySource({prefix + part: shape for part, shape in source.parts.items()}, source.make)
    return found


def official_shapes(found: Mapping[str, ArraySource]) -> dict[str, Shape]:
    """Return every official array that `found` reads, and its shape."""
    return {name: shape for source in found.values() for name, shape in source.parts.items()}


def load_arrays(
    network: nn.Module,
    arrays: Arrays,
    found: Mapping[str, ArraySource],
    file: str,
    dtype: mx.Dtype = mx.float32,
    *,
    lazy: bool = False,
) -> None:
    """Put official `arrays` into `network`, as `dtype`, and freeze it.

    Args:
        network: Not lowered yet.
        arrays: By their official names.
        found: The source of each parameter.
        file: Named in errors.
        dtype: Of the parameters.
        lazy: Parameters take no memory until they are evaluated, where `arrays` do not.

    Raises:
        WeightsError: It names each array that is missing, extra or misshapen.
    """
    check_shapes(arrays, official_shapes(found), file)
    ready = []
    # Files are read lazily: each parameter is made before the next is touched.
    for name, source in found.items():
        array = source.make(*(arrays[part].astype(dtype) for part in source.parts))
        if not lazy:
            mx.eval(array)
        ready.append((name, array))
    wanted = {name: array.shape for name, array in dict(tree_flatten(network.parameters())).items()}
    check_shapes(dict(ready), wanted, file)
    network.update(tree_unflatten(ready))
    network.freeze()
