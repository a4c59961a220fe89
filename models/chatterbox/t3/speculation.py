"""Which guesses stand: the rule that lets a model verify several tokens at once and say what it would have said."""

from __future__ import annotations

from models.backend import mx
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.sampling import ACCEPT, DRAW, Kind


def accept(
    logits: mx.array,
    guesses: mx.array,
    real: mx.array,
    chances: mx.array | None,
    place: mx.array,
    seen: mx.array,
    knobs: mx.array,
    words: mx.array,
    kind: Kind,
) -> tuple[mx.array, mx.array]:
    """Speculative sampling (Leviathan et al. 2023, arXiv:2211.17192): what comes out is distributed as without it.

    logits [k + 1, V] after the last token and after each of guesses [k], of which the first real [1] count; chances
    [k, V] are the probabilities they were drawn with, None if they were not drawn. A guess x stands if a uniform number
    is below p(x) / q(x); the token after the last that stands is drawn from what p has above q, or from p if all stand.
    Returns how many stand [1] and that token [1]. The penalty of each position knows of the guesses before it.
    """
    count, size = guesses.shape[0], logits.shape[-1]
    one = mx.arange(size) == guesses[:, None]
    before = mx.cumsum(one.astype(mx.int32), axis=0) > 0
    scores = sampling.process(logits, mx.concatenate([seen[None], seen | before]), knobs, kind)
    p = mx.softmax(scores, axis=-1, precise=True)
    q = one.astype(mx.float32) if chances is None else chances
    places = place[1:] + mx.arange(count)
    lots = mx.concatenate(
        [mx.random.uniform(shape=(1,), key=sampling.key(words, ACCEPT, at)) for at in mx.split(places, count)]
    )
    share = mx.sum(mx.where(one, p[:-1], 0), axis=-1)
    stands = (lots * mx.sum(mx.where(one, q, 0), axis=-1) < share) & (mx.arange(count) < real)
    accepted = mx.sum(mx.cumprod(stands.astype(mx.int32)), keepdims=True)
    row = mx.take(p, accepted, axis=0)
    drawn_from = mx.take(mx.concatenate([q, mx.zeros((1, size))]), accepted, axis=0)
    rest = mx.where(accepted < real, mx.maximum(row - drawn_from, 0), row)
    # p below q everywhere but for rounding: then p itself is what is left.
    rest = mx.where(mx.sum(rest) > 0, rest, row)
    return accepted, sampling.draw(mx.log(rest), sampling.key(words, DRAW, place[1:] + accepted), kind)
