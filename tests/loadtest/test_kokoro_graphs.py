"""The peer with CUDA graphs, on the CPU without them: the same samples as the reference."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.parity

IDS = [0, 12, 150, 33, 77, 0], [0, 90, 4, 171, 60, 0]


@pytest.fixture
def graphs() -> Any:
    pytest.importorskip("torch", reason="PyTorch is in the environment of `make parity`")
    from loadtest import kokoro_graphs, kokoro_reference

    try:
        kokoro_reference.import_reference()
    except ImportError as exc:
        pytest.skip(str(exc))
    return kokoro_graphs


def test_the_same_samples(graphs: Any) -> None:
    """Twice in the same memory, tokens of different lengths; the same draws of noise."""
    import torch

    reference = graphs.Reference()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        reference.predictor.duration_proj.linear_layer.weight.normal_(0, 0.5, generator=draw)
    style = torch.randn(1, 256, generator=torch.Generator().manual_seed(2)) * 0.5

    def drawn(work: Any, ids: list[int]) -> Any:
        torch.manual_seed(3)
        with torch.inference_mode():
            return work(ids)

    wanted = [drawn(lambda ids: reference(torch.tensor([ids]), style), ids) for ids in IDS]
    assert wanted[0].shape != wanted[1].shape
    with torch.inference_mode():
        network = graphs.Network(reference, style)
        peer = graphs.Utterance(network, len(IDS[0]))
    for ids, samples in (*zip(IDS, wanted, strict=True), (IDS[0], wanted[0])):
        found = drawn(peer, ids)
        assert found.shape == samples.shape
        assert (found - samples).norm() < 1e-3 * samples.norm()
    run = graphs.runner(network)
    assert [run(ids) for ids in IDS] == [len(samples) for samples in wanted]


def test_without_cuda_it_says_so(graphs: Any) -> None:
    if not graphs.missing():
        pytest.skip("there is CUDA")
    with pytest.raises(RuntimeError, match="no CUDA"):
        graphs.make(text_graph=True)
