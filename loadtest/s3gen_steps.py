"""S3Gen's flow with fewer steps: how far the mel moves from that of ten steps, and what is saved.

    python loadtest/s3gen_steps.py [--variant chatterbox-turbo] [--tokens 102] [--prompt-seconds 5] [--steps 2,4,6,8]
                                   [--weights s3gen.safetensors] [--bfloat16] [--runs 3] [--json FILE]

Without `--weights` they are random, at full size: times are then what they are, and errors say how the solver converges
on a flow of that size, not what is heard. Tokens, prompt and noise are random either way, the same for every row.
Errors are root mean squares over the reference's, and the largest of any element over the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

from models.backend import device_name, mx
from models.chatterbox.config import FRAMES_PER_TOKEN, SPEECH_TOKENS, TOKEN_RATE, VARIANTS, ChatterboxConfig
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.weights import flow_shapes, load_flow
from models.checkpoint import read_arrays


def random_weights(config: ChatterboxConfig, seed: int = 0) -> dict[str, mx.array]:
    """Official names and shapes: norms around 1, biases around 0, and products that keep their inputs' size."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in flow_shapes(config).items():
        drawn = rng.standard_normal(shape, dtype=np.float32)
        if len(shape) == 1:
            drawn = 0.2 * drawn + (1.0 if name.endswith("weight") else 0.0)
        elif "embedding" not in name:
            drawn = drawn * float(np.prod(shape[1:])) ** -0.5
        found[name] = mx.array(drawn.astype(np.float32))
    return found


class Sentence:
    """One voice and sentence, encoded, ready to be solved in any number of steps."""

    def __init__(self, flow: Flow, tokens: int, prompt_seconds: float, runs: int) -> None:
        rng = np.random.default_rng(1)
        self.flow, self.runs = flow, runs
        prompt = int(prompt_seconds * TOKEN_RATE)
        said = [rng.integers(0, SPEECH_TOKENS, count).tolist() for count in (prompt, tokens)]

        def normal(*shape: int) -> mx.array:
            return mx.array(rng.standard_normal(shape, dtype=np.float32))

        self.prompt_mel = normal(FRAMES_PER_TOKEN * prompt, flow.config.mels)
        self.speaker = normal(flow.config.speaker.size)
        self.noise = normal(1, FRAMES_PER_TOKEN * (prompt + tokens), flow.config.mels)
        self.seconds = []
        for _ in range(runs + 1):  # the first compiles
            start = time.perf_counter()
            self.mu = flow.encode(*said)
            mx.eval(self.mu)
            self.seconds.append(time.perf_counter() - start)

    def solve(self, steps: int) -> tuple[np.ndarray, float]:
        """The mel, and the median of the seconds it takes."""
        seconds = []
        for _ in range(self.runs):
            start = time.perf_counter()
            mel = self.flow.solve(self.mu, self.prompt_mel, self.speaker, self.noise, steps)
            mx.eval(mel)
            seconds.append(time.perf_counter() - start)
        return np.array(mel), statistics.median(seconds)


def errors(found: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Root mean square and largest difference, both over the root mean square of `wanted`."""
    scale = float(np.sqrt(np.mean(wanted**2)))
    return float(np.sqrt(np.mean((found - wanted) ** 2))) / scale, float(np.abs(found - wanted).max()) / scale


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=list(VARIANTS), default="chatterbox")
    parser.add_argument("--tokens", type=int, default=102)
    parser.add_argument("--prompt-seconds", type=float, default=5.0)
    parser.add_argument("--steps", default="2,3,4,5,6,7,8,9")
    parser.add_argument("--reference", type=int, default=10, help="steps to compare with")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--bfloat16", action="store_true", help="the estimator's type; compared with itself")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    config = VARIANTS[args.variant]
    flow = Flow(config)
    arrays = random_weights(config) if args.weights is None else read_arrays(args.weights)
    load_flow(flow, arrays, str(args.weights or "random"), bfloat16=args.bfloat16)
    del arrays
    sentence = Sentence(flow, args.tokens, args.prompt_seconds, args.runs)
    print(
        f"{args.variant} on {device_name()}, {'random' if args.weights is None else args.weights.name} weights, "
        f"{flow.estimator.dtype}, {args.tokens} tokens after {args.prompt_seconds:g} s of prompt, "
        f"median of {args.runs}: encode {statistics.median(sentence.seconds[1:]) * 1e3:.0f} ms"
    )
    sentence.solve(1)
    wanted, seconds = sentence.solve(args.reference)
    rows = [{"steps": args.reference, "rms": 0.0, "largest": 0.0, "seconds": seconds}]
    for steps in (int(each) for each in args.steps.split(",")):
        mel, seconds = sentence.solve(steps)
        rms, largest = errors(mel, wanted)
        rows.append({"steps": steps, "rms": rms, "largest": largest, "seconds": seconds})
    print(f"{'steps':>5} {'RMS error':>10} {'largest':>10} {'seconds':>9}")
    for row in sorted(rows, key=lambda row: row["steps"]):
        print(f"{row['steps']:5d} {row['rms']:10.2e} {row['largest']:10.2e} {row['seconds']:9.3f}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
