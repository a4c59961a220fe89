"""The draw of the next speech token as one kernel: `sampling.next_token`, whose operations are a launch each.

The numbers are those of `sampling`, but for the rounding of sums, and so is the random one: MLX draws from one row by
the inverse of its cumulative distribution, with one uniform number (MLX 0.32: mlx/random.cpp). Nothing is sorted: the
score at a cut is found by bisection, over the integers that order floats.
"""

from __future__ import annotations

from models.backend import mx
from models.chatterbox.t3.sampling import DRAW, SamplingMode
from models.layers.kernels.device import Kernel, joined, launch

_THREADS = 512  # of the one block; on Metal a kernel's registers may not be for 1024

_BODY = f"""
  // Scores from SPOKEN on are not drawn. Those from V on fill the last run.
  const int lane = THREAD % 32, warp = THREAD / 32, first = warp * 32 * N + lane;
  const float guidance = params[0], temperature = params[1], least = params[2], share = params[3], penalty = params[4];
  SHARED_ARRAY(float, room, 2 * (THREADS / 32));
  SHARED_ARRAY(float, run, 32 * N);
  SHARED_ARRAY(float, runs, 32);
  SHARED_ARRAY(int, drawn, 1);
  Block at = {{lane, warp, THREADS / 32, 0, room}};
  float scores[N], weights[N];
  UNROLL
  for (int i = 0; i < N; ++i) {{
    const int id = first + 32 * i;
    float score = NEVER;
    if (id < SPOKEN) {{
      score = logits[id];
      if (ROWS == 2) score = score + guidance * (score - logits[V + id]);
      if (GREEDY || !PENALTY_LAST) score = penalized(score, seen[id], penalty);
      if (!GREEDY) score = score / temperature;
    }}
    scores[i] = score;
  }}
  float most = greatest(at, scores);
  if (GREEDY) {{
    float id = NEVER;  // minus the first of the likeliest
    UNROLL
    for (int i = N - 1; i >= 0; --i) id = scores[i] == most ? -(float)(first + 32 * i) : id;
    id = block_max(at, id);
    if (THREAD == 0) drawn[0] = most - most == 0.0f ? (int)-id : -1;
  }} else {{
    float low = NEVER;
    if (!PENALTY_LAST) {{
      low = most + least;
      drop_below(scores, low);
    }} else if (TOP_K < V) {{
      UNROLL
      for (int i = 0; i < N; ++i) weights[i] = first + 32 * i < V ? 1.0f : 0.0f;
      low = threshold(at, scores, weights, (float)(V - TOP_K), NEVER, most);
      drop_below(scores, low);
    }}
    if (TRUNCATES) {{
      const float total = block_sum(at, weigh(scores, most, weights));
      drop_below(scores, threshold(at, scores, weights, (1.0f - share) * total, low, most));
    }}
    if (PENALTY_LAST) {{
      UNROLL
      for (int i = 0; i < N; ++i) {{
        const int id = first + 32 * i;
        if (id < V) scores[i] = penalized(scores[i], seen[id], penalty);
      }}
      most = greatest(at, scores);
    }}
    SHARED const float *sums = gather(at, warp_sum(weigh(scores, most, weights)));
    float total = 0.0f, before = 0.0f;
    for (int i = 0; i < at.warps; ++i) total += sums[i];
    const float target = uniform_of(random_bits(seed[{DRAW}], (uint)place[1])) * total;
    const int chosen = locate(sums, at.warps, target, before);
    if (warp == chosen) {{
      UNROLL
      for (int i = 0; i < N; ++i) run[32 * i + lane] = weights[i];
      WARP_SYNC();
      float sum = 0.0f;
      for (int i = 0; i < N; ++i) sum += run[lane * N + i];
      runs[lane] = sum;
      WARP_SYNC();
      if (lane == 0) {{
        const int part = locate(runs, 32, target, before) * N;
        const int id = warp * 32 * N + part + locate(run + part, N, target, before);
        drawn[0] = total == total ? id : -1;
      }}
    }}
  }}
  SYNC();
  if (THREAD == 0) token[0] = drawn[0];
  if (THREAD < 4) next[THREAD] = THREAD < 2 ? place[THREAD] + 1 : THREAD == 2 ? drawn[0] : 0;
  UNROLL
  for (int i = 0; i < N; ++i) {{
    const int id = first + 32 * i;
    if (id < V) marked[id] = seen[id] || id == drawn[0];
  }}
"""

KERNEL = Kernel(
    name="nightingale_t3_draw",
    inputs=("logits", "place", "seen", "params", "seed"),
    outputs=("token", "next", "marked"),
    body=_BODY,
    header=f"#define THREADS {_THREADS}\n" + joined(__file__, "draw.h"),
    bounded=True,
)


def next_token(
    logits: mx.array, place: mx.array, seen: mx.array, params: mx.array, seed: mx.array, mode: SamplingMode
) -> tuple[mx.array, mx.array, mx.array]:
    """Compute `sampling.next_token` by one kernel. This device must have a GPU."""
    size = seen.shape[0]
    token, place, seen = launch(
        KERNEL,
        [logits.astype(mx.float32), place, seen, params, seed],
        [((1,), mx.int32), ((4,), mx.int32), ((size,), mx.bool_)],
        (1, 1, 1),
        {
            "V": size,
            "N": -(-size // _THREADS),
            "ROWS": logits.shape[0],
            "SPOKEN": min(mode.spoken, size) if mode.exact else size,
            "PENALTY_LAST": mode.penalty_last,
            "GREEDY": mode.greedy,
            "TOP_K": mode.top_k,
            "TRUNCATES": mode.truncates,
        },
        threads=_THREADS,
    )
    return token, place, seen
