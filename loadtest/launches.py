"""Time that a launch costs the host on a GPU, by the kernel's inputs, outputs and length of source.

    python -m loadtest.launches [--count 100] [--runs 30]

Each row is a compiled chain of trivial launches: to build its graph, to send it, and until all is done, in microseconds
a launch. Networks of many small kernels take this time or the GPU's, whichever is longer.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

from models.backend import device_name, mx
from models.layers.kernels.device import THREADS, Kernel, gpu, launch

SIZE = 4 * THREADS  # numbers of the chain
SPECS = ((1, 1, 0), (1, 1, 16), (16, 1, 0), (1, 4, 0), (16, 4, 0), (16, 4, 16))  # inputs, outputs, kilobytes of body

Operation = Callable[[mx.array], mx.array]


def own(inputs: int, outputs: int, kilobytes: int) -> Operation:
    """Return the launch of a kernel that adds 1, with so many arrays and so long a source."""
    more = [mx.zeros((64, 64)) for _ in range(inputs - 1)]
    mx.eval(more)
    kernel = Kernel(
        f"launch_{inputs}_{outputs}_{kilobytes}",
        tuple(f"in{number}" for number in range(inputs)),
        tuple(f"out{number}" for number in range(outputs)),
        f"const int i = BLOCK_X * {THREADS} + THREAD; out0[i] = in0[i] + 1.0f;\n"
        + "".join(f"#define UNUSED_{number:04} ({number:032})\n" for number in range(kilobytes * 20)),
    )
    made = [((SIZE,), mx.float32), *(((16,), mx.float32) for _ in range(outputs - 1))]
    return lambda x: launch(kernel, [x, *more], made, (SIZE // THREADS, 1, 1))[0]


def measure(operation: Operation, count: int, runs: int) -> tuple[float, float, float]:
    """Return the medians of building, sending and all of a chain of `count`, in microseconds a launch."""

    def chain(x: mx.array) -> mx.array:
        for _ in range(count):
            x = operation(x)
        return x

    compiled, x = mx.compile(chain), mx.zeros(SIZE)
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    for run in range(runs + 3):
        mx.eval(x)
        mx.synchronize()
        start = time.perf_counter()
        y = compiled(x)
        built = time.perf_counter()
        mx.async_eval(y)
        sent = time.perf_counter()
        mx.synchronize()
        done = time.perf_counter()
        if run >= 3:
            for kept, value in zip(times, (built - start, sent - built, done - start), strict=True):
                kept.append(value)
    building, sending, all_of_it = (statistics.median(each) * 1e6 / count for each in times)
    return building, sending, all_of_it


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args(arguments)
    if gpu() is None:
        parser.error("a CPU has no launches: MLX needs a GPU")
    weight = mx.zeros((SIZE, SIZE))
    mx.eval(weight)
    rows: dict[str, Operation] = {
        "mx.sort": mx.sort,
        f"product [1, {SIZE}]": lambda x: (x[None] @ weight)[0],
    }
    for inputs, outputs, kilobytes in SPECS:
        rows[f"own kernel, {inputs} inputs, {outputs} outputs, {kilobytes} KB"] = own(inputs, outputs, kilobytes)
    print(f"{device_name()}, microseconds a launch: built, sent, all")
    for name, operation in rows.items():
        figures = measure(operation, options.count, options.runs)
        print(f"{name:40}" + "".join(f"{value:8.2f}" for value in figures), flush=True)


if __name__ == "__main__":
    main()
