"""One training step and its state (PyTorch)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.data import Batch
from training.discriminators import Discriminators
from training.features import FRAME
from training.losses import SpectralLoss, adversarial_loss, discriminator_loss, feature_loss
from training.model import Config, HouseVoice

NAMES = (
    "mel", "convergence", "phase", "duration", "bce", "f0", "energy", "offset", "disc", "adv", "features", "norm",
)  # fmt: skip
PROSODY = ("bert", "predictor")
LEARNED = ("duration", "bce", "f0", "energy")  # losses of the prosody
EMA_DECAY = 0.9985
CROP_FRAMES = 32  # 0.8 s of audio is what the discriminators see
MAX_JUDGED = 48
WEIGHTS = {
    "mel": 12.0, "convergence": 1.5, "phase": 0.7, "duration": 1.0, "bce": 10.0, "f0": 1.0, "energy": 0.5,
    "offset": 20.0,
}  # fmt: skip
ADVERSARIAL_WEIGHT = 0.5
DISCRIMINATOR_RATE = 0.7  # of the generator's learning rate


def load_parameters(network: nn.Module, state: dict[str, Tensor]) -> None:
    """Load every parameter of a network; what it computes itself need not be there. Raises ValueError."""
    missing = network.load_state_dict(state, strict=False).missing_keys
    if lacking := sorted({name for name, _ in network.named_parameters()} & set(missing)):
        raise ValueError(f"{len(lacking)} parameters are missing, the first is {lacking[0]}")


class Trainer:
    """Network, its moving average, discriminators and optimizers.

    With `graphs`, the step of each shape of batch becomes a CUDA graph when the shape comes for the third time: a step
    has thousands of small kernels, and launching them one by one takes longer than they do.
    """

    def __init__(self, config: Config, device: torch.device, *, amp: bool, graphs: bool = False) -> None:
        self.device, self.amp, self.graphs = device, amp, graphs
        self.network = HouseVoice(config).to(device).train()
        self.average = HouseVoice(config).to(device).eval().requires_grad_(False)
        self.average.load_state_dict(self.network.state_dict())
        self.judges = Discriminators().to(device)
        self.spectral = SpectralLoss().to(device)
        on_gpu = device.type == "cuda"
        options: dict[str, Any] = {"betas": (0.8, 0.99), "weight_decay": 0.01, "fused": on_gpu, "capturable": on_gpu}
        # A graph reads its learning rates from the device.
        self._rates = [torch.zeros((), device=device) for _ in range(2)]
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=self._rates[0] if on_gpu else 0.0, **options)
        self.judge_optimizer = torch.optim.AdamW(
            self.judges.parameters(), lr=self._rates[1] if on_gpu else 0.0, **options
        )
        self._adversarial = torch.zeros((), device=device)
        self._seen: Counter[tuple[int, ...]] = Counter()
        self._captured: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Batch, Tensor]] = {}
        self._pool = torch.cuda.graph_pool_handle() if graphs else None
        named = list(self.network.named_parameters())
        self._prosody = [p for name, p in named if name.startswith(PROSODY)]
        self._acoustic = [p for name, p in named if not name.startswith(PROSODY)]
        self._judging = list(self.judges.parameters())
        self._averaged, self._parameters = list(self.average.parameters()), [p for _, p in named]
        self.steps = 0

    def load_weights(self, state: dict[str, Tensor]) -> None:
        """Begin from existing weights; every parameter of the network must be there."""
        load_parameters(self.network, state)
        self.average.load_state_dict(self.network.state_dict())

    def state(self) -> dict[str, Any]:
        """Return everything that a resumed run needs."""
        return {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "judges": self.judges.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "judge_optimizer": self.judge_optimizer.state_dict(),
            "steps": self.steps,
            "rng": torch.get_rng_state(),
            "device_rng": torch.cuda.get_rng_state() if self.device.type == "cuda" else None,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        for name in ("network", "average", "judges", "optimizer", "judge_optimizer"):
            getattr(self, name).load_state_dict(state[name])
        self.steps = state["steps"]
        torch.set_rng_state(state["rng"].cpu())
        if state["device_rng"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["device_rng"].cpu())

    def _autocast(self) -> torch.autocast:
        # A cache of casts would outlive the graph that made them.
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.amp, cache_enabled=not self.graphs)

    def _forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Audio made from the teacher's durations, F0 and energy, and the losses that need no discriminator."""
        network = self.network
        decoder_style, style = network.voices(batch.voices).split(network.style_dim, 1)
        features, logits = network.tokens(batch.ids, batch.lengths, batch.padding, style)
        spread = batch.index[:, :, None].expand(-1, -1, features.shape[2])
        f0, energy = network.predictor.f0_and_energy(torch.gather(features, 1, spread), style)
        text = network.text_encoder(batch.ids, batch.lengths, batch.padding)
        text = torch.gather(text, 2, batch.index[:, None].expand(-1, text.shape[1], -1))
        with self._autocast():
            audio = network.decoder(text, batch.f0, batch.energy, decoder_style)
        mel, convergence, phase = self.spectral(audio, batch.audio)
        real = (~batch.padding).float()
        wanted = (torch.arange(logits.shape[-1], device=self.device) < batch.durations[:, :, None]).float()
        each = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").mean(-1)
        error = (torch.sigmoid(logits).sum(-1) - batch.durations).abs()
        return audio, {
            "mel": mel,
            "convergence": convergence,
            "phase": phase,
            "duration": (error * real).sum() / real.sum(),
            "bce": (each * real).sum() / real.sum(),
            "f0": F.smooth_l1_loss(f0 / 10, batch.f0 / 10),
            "energy": F.l1_loss(energy, batch.energy),
            "offset": (audio.mean(1) - batch.audio.mean(1)).abs().mean(),
        }

    def _judge(self, audio: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Train the discriminators on random crops, then ask them about the same crops."""
        frames = batch.index.shape[1]
        crop = min(CROP_FRAMES, frames)
        start = torch.randint(0, (frames - crop) * FRAME + 1, (len(audio), 1), device=self.device)
        places = (start + torch.arange(crop * FRAME, device=self.device))[:MAX_JUDGED]
        true, made = batch.audio[:MAX_JUDGED].gather(1, places), audio[:MAX_JUDGED].gather(1, places)
        with self._autocast():
            judged = self.judges(torch.cat([true, made.detach()]))
        loss = discriminator_loss(judged, len(true))
        self.judge_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self._judging, 50.0)
        self.judge_optimizer.step()
        self.judges.requires_grad_(False)
        with self._autocast():
            judged = self.judges(torch.cat([true, made]))
        self.judges.requires_grad_(True)
        return {
            "disc": loss.detach(),
            "adv": adversarial_loss(judged, len(true)),
            "features": feature_loss(judged, len(true)),
        }

    def step(self, batch: Batch, *, rate: float, adversarial: float, network_learns: bool = True) -> Tensor:
        """Train one step at learning rate `rate`; `adversarial` scales the discriminators' losses (0: none).

        Without `network_learns` only the discriminators do. Returns the losses in the order of NAMES, on the device.
        """
        optimizers = (self.optimizer, self.judge_optimizer)
        for optimizer, held, share in zip(
            optimizers, self._rates, (float(network_learns), DISCRIMINATOR_RATE), strict=True
        ):
            held.fill_(rate * share)
            for group in optimizer.param_groups:
                group["lr"] = held if self.device.type == "cuda" else rate * share
        self._adversarial.fill_(adversarial)
        losses = self._replayed(batch, adversarial > 0) if self.graphs else self._step(batch, adversarial > 0)
        decay = min(EMA_DECAY, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self._averaged, self._parameters, 1 - decay)
        self.steps += 1
        return losses

    def _replayed(self, batch: Batch, judged: bool) -> Tensor:
        key = (*batch.shape, int(judged))
        self._seen[key] += 1
        if self._seen[key] <= 2:  # kernels are chosen and compiled outside of a graph
            return self._step(batch, judged)
        if key not in self._captured:
            static, graph = batch.clone(), torch.cuda.CUDAGraph()
            self.optimizer.zero_grad(set_to_none=True)
            self.judge_optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, pool=self._pool, stream=torch.cuda.current_stream()):
                losses = self._step(static, judged)
            self._captured[key] = graph, static, losses
        graph, static, losses = self._captured[key]
        static.copy_(batch)
        graph.replay()
        return losses.clone()

    def _step(self, batch: Batch, judged: bool) -> Tensor:
        audio, losses = self._forward(batch)
        weighted = [
            losses[name] * weight * (batch.prosody if name in LEARNED else 1.0) for name, weight in WEIGHTS.items()
        ]
        total = torch.stack(weighted).sum()
        if judged:
            of_judges = self._judge(audio, batch)
            total = total + self._adversarial * (of_judges["adv"] * ADVERSARIAL_WEIGHT + of_judges["features"])
            losses |= of_judges
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        losses["norm"] = nn.utils.clip_grad_norm_(self._acoustic, 20.0)
        nn.utils.clip_grad_norm_(self._prosody, 20.0)
        self.optimizer.step()
        zero = torch.zeros((), device=self.device)
        return torch.stack([losses.get(name, zero).detach().float() for name in NAMES])
