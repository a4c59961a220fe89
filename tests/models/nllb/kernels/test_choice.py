"""The decoding step's kernels, run by an emulated GPU in both dialects, against the plain step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.layers.kernels import agreement
from models.layers.transformer import cuda, metal
from models.layers.transformer.cuda import CudaStep
from models.layers.transformer.metal import MetalStep
from models.layers.transformer.step import OUTPUTS, TOKENS, Step
from models.layers.transformer.weights import pack
from models.nllb import steps
from models.nllb.kernels import choice
from models.nllb.kernels.choice import FAMILY, decoder_weights, differences, output_rows, shape
from models.nllb.network import Nllb
from models.nllb.search import TranslationHypothesis, TranslationTask, beam, greedy, greedy_no_repeat
from models.nllb.steps import CompiledM2M100
from models.nllb.vocabulary import argmax
from tests.models.metal import checker
from tests.models.nllb.kernels.emulated import SMALL, TOLERANCE, Case, PlainStep, cuda_step, error, gpu, network
from tests.models.nllb.kernels.test_step import half

pytestmark = pytest.mark.slow
proof = pytest.mark.proof

# Weights of few bits are rounded to bfloat16 once they are unpacked.
TOLERANCES = {0: TOLERANCE, 8: 1.5 * TOLERANCE, 4: 3 * TOLERANCE}


@pytest.fixture(autouse=True)
def few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated blocks take their time."""
    monkeypatch.setattr(metal, "_BLOCKS", 3)
    monkeypatch.setattr(metal, "_SEARCH_BLOCKS", 2)


def metal_step(model: Nllb) -> MetalStep:
    return MetalStep(FAMILY, decoder_weights(model), model.shared.embed)


def check(step: Step, case: Case, tolerance: float = TOLERANCE) -> None:
    """Outputs, keys, values and tokens are the plain step's."""
    wanted, kept = case.plain()
    found, held = case.outputs(step)
    assert error(found, wanted) < tolerance
    for one, other in zip(held, kept, strict=True):
        assert error(one, other) < tolerance
        changed = np.nonzero((one != np.array(case.past[0].astype(mx.float32))).any(axis=(0, 1, 3)))[0]
        assert case.place in changed
    tree = case.model.shared.head().tree
    assert case.tokens(step, tree) == np.array(argmax(tree, mx.array(found), case.model.shared.bits)).ravel().tolist()


# Blocks that share groups of outputs unevenly; one block; more rows than one kernel's eight; a cache that is longer
# than a block sees at once; blocks that make fewer queries than others, and are ready first.
@pytest.mark.parametrize(
    ("case", "blocks", "bits", "backward"),
    [
        ({"rows": 3, "counts": (4, 9, 1)}, 5, 0, True),
        *(
            pytest.param(*each, marks=proof)
            for each in [
                ({"rows": 1}, 1, 0, False),
                ({"rows": 19, "counts": (4, 9, 1), "place": 60, "length": 64, "source": 70}, 3, 0, False),
                ({"rows": 2, "each": 3, "counts": (4, 9)}, 3, 0, True),
                ({"rows": 2, "counts": (300,), "source": 300}, 40, 0, True),  # 16 heads of rows, each in two parts
                ({"rows": 1, "counts": (7,), "source": 300}, 43, 0, False),  # most parts see padding alone
                ({"rows": 2, "place": 0}, 3, 8, True),
                ({"rows": 2, "counts": (4,)}, 3, 4, False),
                ({"rows": 2}, 7, 0, False),
            ]
        ),
    ],
)
def test_one_kernel_equals_the_plain_step(
    case: dict[str, int], blocks: int, bits: int, backward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = gpu(monkeypatch, backward=backward)
    check(cuda_step(network(SMALL, bits), blocks), Case(network(SMALL, bits), **case), TOLERANCES[bits])
    assert launched == [f"nightingale_nllb_step_{1 if case['rows'] <= 8 else 4}"] * 2


@pytest.mark.parametrize(
    ("case", "bits", "backward"),
    [
        ({"rows": 1, "counts": (4,)}, 0, False),
        pytest.param({"rows": 11, "counts": (4, 9, 1), "place": 35, "length": 40}, 0, True, marks=proof),
        pytest.param({"rows": 4, "each": 3, "counts": (4, 9, 1)}, 0, False, marks=proof),
        pytest.param({"rows": 2}, 8, False, marks=proof),
    ],
)
def test_phases_equal_the_plain_step(
    case: dict[str, int], bits: int, backward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = gpu(monkeypatch, "metal", backward=backward)
    check(metal_step(network(SMALL, bits)), Case(network(SMALL, bits), **case), TOLERANCES[bits])
    assert len(launched) == 2 * 8 * SMALL.decoder_layers + 3


@pytest.mark.parametrize("bits", [0, *(pytest.param(bits, marks=proof) for bits in (8, 4))])
def test_the_phases_are_metal(bits: int, program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(metal.device, "launch", checker(program("clang"), seen))
    case = Case(network(replace(SMALL, decoder_layers=1), bits), 2, source=16)
    step, tree = metal_step(case.model), case.model.shared.head().tree
    case.tokens(step, tree)
    case.outputs(step)
    assert set(seen) == {kernel.name for kernel in step._kernels.values()}


def test_rows_go_on_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their keys and values of each place are some other row's."""
    case = Case(network(), 3, 2, counts=(4, 9, 1))
    origin = np.random.RandomState(1).randint(0, 3, case.origin.shape).astype(np.int32)
    origin[:, case.place] = origin[:, case.place + 1] = range(3)
    case.origin = mx.array(origin)
    gpu(monkeypatch)
    assert error(case.outputs(cuda_step(network()))[0], case.plain()[0]) < TOLERANCE


@proof
def test_the_search_takes_the_first_of_equals_and_no_banned_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shortlist: tokens by their places in its table, an odd number of rows."""
    model, case = network(), Case(network(), 2)
    gpu(monkeypatch)
    step, hidden = cuda_step(model), mx.array(case.outputs(cuda_step(model))[0])
    likeliest = int(np.argmax(np.array(hidden @ model.shared.weight.T)[0, 0]))
    ids = np.sort(np.array([*range(20, 119), likeliest]))
    tree = model.shared.head(ids).tree
    assert case.tokens(step, tree) == np.array(argmax(tree, hidden)).ravel().tolist()
    assert case.tokens(step, tree)[0] == likeliest
    banned = np.zeros(len(ids), np.float32)
    banned[ids == likeliest] = -np.inf
    tree = {**tree, "banned": [[mx.array(banned)]]}
    assert case.tokens(step, tree) == np.array(argmax(tree, hidden)).ravel().tolist() != likeliest
    same = {**tree, "parts": [[mx.ones((100, 512))]], "banned": [[mx.array([-np.inf] * 17 + [0] * 83)]]}
    assert case.tokens(step, same) == [int(ids[17])] * 2


@proof
def test_outputs_that_are_no_numbers_have_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder that was given up leaves such keys and values: the step's tokens tell."""
    case = Case(network(), 2)
    spoilt = mx.full(case.memory[1].shape, float("nan"), dtype=mx.bfloat16)
    case.memory = [case.memory[0], spoilt]
    gpu(monkeypatch)
    assert case.tokens(cuda_step(network()), network().shared.head().tree) == [-1, -1]


@proof
def test_no_place_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the last place the cache stays as it is, the outputs are no numbers, and the tokens are none."""
    case = Case(network(), 2, 2, place=11)
    gpu(monkeypatch)
    step = cuda_step(network())
    assert np.isnan(case.outputs(step)[0]).all()
    assert case.tokens(step, network().shared.head().tree) == [-1] * 4


@proof
def test_what_follows_a_step_that_was_given_up_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of a prompt of many rows are launched one by one, and only the last one's tokens are read."""
    first, gpu_step = Case(network(), 2, 2, place=11), cuda_step(network())
    gpu(monkeypatch)
    given = first.past, first.memory, first.mask.astype(mx.bfloat16), first.origin
    rows = output_rows(network().shared.head().tree)
    _, place = gpu_step(first.ids, mx.array([11]), *given, rows, TOKENS)
    made, _ = gpu_step(mx.contiguous(first.ids[:, :1]), place, *given, rows, TOKENS)
    assert np.array(made).tolist() == [[-1], [-1]]


@proof
def test_a_layer_at_full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(SMALL, d_model=1024, decoder_attention_heads=16, decoder_ffn_dim=4096, decoder_layers=1)
    assert shape(network(config)).warps() == 16
    gpu(monkeypatch)
    check(cuda_step(network(config), 5), Case(network(config), 2))


class Searches:
    """The real `CompiledM2M100` in bfloat16, with the emulated kernel (or another step) and without."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, make: Callable[[Nllb], Step] = cuda_step) -> None:
        self.model = network.__wrapped__()
        half(self.model)
        self.plain, self.kernel = (CompiledM2M100(self.model, padded=True) for _ in range(2))
        gpu(monkeypatch)
        self.kernel.kernel = make(self.model)
        self.plain.ahead = self.kernel.ahead = True  # as on a GPU
        self.head = self.model.shared.head()

    def run(self, search: Callable[..., object], *more: object, beams: int = 1) -> list[list[list[int]]]:
        """Tokens of each sentence's hypotheses, by both."""
        tasks = [TranslationTask([5, 6, 7, 8, 2], 150, 9), TranslationTask([9, 4, 11, 30, 31, 32, 2], 150, 5)]
        both = []
        for compiled in (self.plain, self.kernel):
            group = compiled.encode([task.source for task in tasks], self.head, 12, beams)
            found: dict[int, list[TranslationHypothesis]] = dict(
                each for each in search(compiled, group, tasks, *more) if each is not None
            )
            both.append([[one.tokens for one in found[which]] for which in (0, 1)])
        return both


def test_greedy_search_finds_the_plain_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt, steps sent ahead, and a row that ends first."""
    plain, kernel = Searches(monkeypatch).run(greedy, lambda: False)
    assert kernel == plain


@pytest.mark.parametrize(
    ("search", "more", "beams"),
    [(greedy_no_repeat, (2, lambda: False), 1), (beam, (3, lambda: False), 3), (beam, (4, lambda: False), 4)],
)
def test_searches_with_a_step_that_writes_in_place(
    search: Callable[..., object], more: tuple[object, ...], beams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypotheses that go on from others' keys and values, also after the first sentence has ended. A step of the same
    operations, as the rounding of a kernel may decide between hypotheses."""
    plain, kernel = Searches(monkeypatch, PlainStep).run(search, *more, beams=beams)
    assert kernel == plain


@proof
def test_a_draft_is_followed_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    both = []
    searches = Searches(monkeypatch)
    for compiled in (searches.plain, searches.kernel):
        group = compiled.encode([[5, 6, 7, 8, 2]], searches.head, 12)
        task = TranslationTask([5, 6, 7, 8, 2], 150, 9, draft=[17, 20])
        both += [found[1][0].tokens for found in greedy(compiled, group, [task], lambda: False) if found is not None]
    assert both[0] == both[1]


class LostStep:
    """A step that is given up in one call, after `good` others."""

    def __init__(self, model: Nllb, good: int) -> None:
        self._plain, self._good = PlainStep(model), good

    def __call__(self, ids: mx.array, place: mx.array, *given: Any) -> tuple[mx.array, mx.array]:
        made, following = self._plain(ids, place, *given)
        self._good -= 1
        if self._good != -1:
            return made, following
        return mx.full(made.shape, -1 if given[-1] == TOKENS else float("nan"), dtype=made.dtype), following


@pytest.mark.parametrize("good", [0, 2])
@pytest.mark.parametrize(("search", "more", "beams"), [(greedy, (), 1), (greedy_no_repeat, (2,), 1), (beam, (3,), 3)])
def test_a_step_that_was_given_up_is_an_error(
    search: Callable[..., object], more: tuple[object, ...], beams: int, good: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = Searches(monkeypatch, lambda model: LostStep(model, good))
    group = searches.kernel.encode([[5, 6, 2]], searches.head, 12, beams)
    with pytest.raises(RuntimeError, match="given up"):
        list(search(searches.kernel, group, [TranslationTask([5, 6, 2], 150, 9)], *more, lambda: False))


def test_a_draft_whose_step_was_given_up_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Searches(monkeypatch, lambda model: LostStep(model, 0))
    group = searches.kernel.encode([[5, 6, 2]], searches.head, 12)
    with pytest.raises(RuntimeError, match="given up"):
        list(greedy(searches.kernel, group, [TranslationTask([5, 6, 2], 150, 9, draft=[17, 20])], lambda: False))


def test_differences_tell_a_wrong_step() -> None:
    model = network()

    plain = PlainStep(model)
    assert max(differences(plain, model, 3)) < 1e-5
    later = lambda ids, place, *given: plain(ids, place + 1, *given)  # noqa: E731
    assert differences(later, model, 3)[0] > 0.1
    nothing = lambda *given: (plain(*given)[0] if given[-1] == OUTPUTS else mx.full((3, 1), 5), 0)  # noqa: E731
    assert differences(nothing, model, 3)[1] > 0.1


def test_kernels_are_chosen_where_they_agree(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    model = network()
    assert choice.choose_step(model) is None or not on_cpu()
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(cuda, "processors", lambda: 132)
    monkeypatch.setattr(CudaStep, "available", staticmethod(lambda *_: True))
    monkeypatch.setattr(choice, "differences", lambda *_: (0.01, 0.0))
    assert isinstance(choice.choose_step(model), CudaStep)
    monkeypatch.setattr(choice, "differences", lambda *_: (0.01, float("nan")))
    assert choice.choose_step(model) is None
    assert "NLLB's step" in caplog.text


@pytest.mark.parametrize("wrong", [False, True])
def test_kernels_of_layers_are_compared_too(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, each time that a network is taken into use; without `kernels` they are not even tried."""
    model = network.__wrapped__()
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(steps, "gpu", lambda: "cuda")
    advance = model.advance
    off = mx.array(float(wrong))

    def fused(*given: mx.array) -> tuple[mx.array, list[mx.array]]:
        model.fused, kept = False, model.fused
        hidden, past = advance(*given)
        model.fused = kept
        return hidden + off * kept, past

    monkeypatch.setattr(model, "advance", fused)
    model.fused = True
    assert CompiledM2M100(model, padded=True).network.fused != wrong
    assert [found.used for found in agreement.report()] == [not wrong]
    model.fused = True
    assert not CompiledM2M100(model, padded=True, kernels=False).network.fused
    assert len(agreement.report()) == 1


def test_which_networks_have_it_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in bfloat16, with heads of 64 and widths that blocks can share, where MLX launches directly."""
    model = Nllb(SMALL)
    monkeypatch.setattr(cuda, "processors", lambda: 132)
    monkeypatch.setenv("MLX_USE_CUDA_GRAPHS", "0")
    assert not CudaStep.available(shape(model), model.dtype)
    model.set_dtype(mx.bfloat16)
    assert CudaStep.available(shape(model), model.dtype)
    monkeypatch.setenv("MLX_USE_CUDA_GRAPHS", "1")
    assert not CudaStep.available(shape(model), model.dtype)
    for config in (replace(SMALL, decoder_attention_heads=4), replace(SMALL, decoder_ffn_dim=1088)):
        assert not shape(Nllb(config)).fits_cuda()
    wide = replace(SMALL, d_model=2048, decoder_attention_heads=32, decoder_ffn_dim=8192)
    assert shape(Nllb(wide)).fits_cuda()
    assert not metal.fits_metal(shape(Nllb(wide)))


def test_weights_are_held_once() -> None:
    """A network in bfloat16 has slices of the kernels' arrays as its products."""
    model = network.__wrapped__()
    half(model)
    for _, module in model.decoder.named_modules():
        if hasattr(module, "_parts"):
            module._parts = [(mx.concatenate([part[0] for part in module._parts]),)]  # as lowered on a GPU
    before = np.array(model.decoder.layers[1].fc1._parts[0][0].astype(mx.float32))
    packed = pack(decoder_weights(model))
    own = model.decoder.layers[1].fc1
    assert packed["fc1"].shape == (2, 1024, 512)
    np.testing.assert_array_equal(np.array(packed["fc1"][1].astype(mx.float32)), before)
    np.testing.assert_array_equal(np.array(own._parts[0][0].astype(mx.float32)), before)
    assert own.weight is own._parts[0][0]


def test_more_rows_than_the_kernel_has() -> None:
    case = Case(network(), 33)
    with pytest.raises(ValueError, match="at most 32 rows"):
        case.outputs(cuda_step(network()))
