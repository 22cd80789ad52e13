"""What DFModel says of serving: Llama 3 8B on 16 chips, and drafts for Llama 3 405B on them.

One throughput is printed with what was measured; the rest are sentences about figures without
values. Prompts, contexts, windows and acceptances are not printed either: a sentence passes if it
holds at all points below. How the time of chips that compute and store more or less changes with
their memory, Fig. 22, stands in `netplan.published.dataflow_trends`.

Source: Ko et al., DFModel (arXiv:2412.16432), Sec. VIII-A and B. The study
``speculative-decoding`` runs the points of Fig. 21.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netplan.arrays import Amount, Floats, Ints
from netplan.inputs.choices import Scheme
from netplan.performance.serving.closed_form import (
    Pass,
    PassTime,
    Phase,
    Sizes,
    TensorGroup,
    decode,
    pass_time,
    prefill,
)
from netplan.performance.serving.speculation import PassSeconds, speculate
from netplan.published.checks import Check, Measured, known, stated
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

CHIP, CHIPS = "sn40l", 16
SERVED, TARGET = "llama-3-8b", "llama-3-405b"
SMALL, MEDIUM, LARGE = DRAFTS = ("llama-68m", "llama-3-8b", "llama-3-70b")

TENSOR = np.array([1, 2, 4, 8, 16])
"""Chips of a stage; the 16 have as many stages as that leaves [1]."""

PROMPT = 1024
"""Tokens of the prompts of Fig. 20, assumed [1]."""

WINDOWS, ACCEPTANCES = np.arange(1, 9), np.array([0.5, 0.6, 0.7, 0.8, 0.9])
"""Points of Fig. 21, assumed [1]."""


def serving_form_checks() -> Iterator[Check]:
    """The throughput that was measured, sentences about figures, and what cannot be computed."""
    yield from stated(fig_20_statements(_fig_20()), "serving")
    yield from stated(fig_21_statements(_fig_21()), "serving")
    yield known(
        "Llama 3 70B and 405B with a draft of 8B: off what was measured, %",
        "DFModel, Sec. VIII-B",
        "12",
        "-",
        "window, acceptance and what was measured stand in a figure without values",
    )


class Fig20(NamedTuple):
    """Both phases of Llama 3 8B on all chips, by chips of a stage."""

    decode: Phase
    prefill: Phase


def _fig_20() -> Fig20:
    """The points of the figure: long messages go both ways round a ring, short ones one way."""
    sizes, chip, stages = Sizes.of(MODELS.load(SERVED)), ACCELERATORS.load(CHIP), CHIPS // TENSOR
    return Fig20(
        decode(sizes, TensorGroup.of(chip, TENSOR), stages=stages),
        prefill(sizes, TensorGroup.of(chip, TENSOR, ways=2), prompt=PROMPT, stages=stages),
    )


def fig_20_statements(found: Fig20) -> Iterator[Measured]:
    """Throughput of all chips as one stage, and what more chips a stage change."""
    alone = float(np.asarray(found.decode.tokens_per_s)[-1])
    yield "Llama 3 8B on 16 SN40L, TP 16: measured, tokens/s", alone
    yield "Llama 3 8B on 16 SN40L, TP 16: modelled, tokens/s", alone
    for phase, wait, served in (
        ("decode", "TPOT", found.decode),
        ("prefill", "TTFT", found.prefill),
    ):
        yield f"Fig. 20: more TP, shorter {wait}", _rises(-np.asarray(served.wait_s))
        yield (
            f"Fig. 20: more PP, more tokens/s in {phase}",
            _rises(np.asarray(served.tokens_per_s)[::-1]),
        )
    sent, read = found.prefill.parts, found.decode.parts
    yield (
        "Fig. 20, prefill: share of computing and bytes on links, at least",
        _least_share(sent, sent.compute_s + sent.sent_s),
    )
    yield (
        "Fig. 20, decode: share of memory and hops, at least",
        _least_share(read, read.memory_s + read.hops_s),
    )


def _least_share(parts: PassTime, some_s: Amount) -> float:
    """Least share of some parts in the sum of all four [1]."""
    return float(np.min(some_s / (parts.compute_s + parts.memory_s + parts.sent_s + parts.hops_s)))


def _rises(values: ArrayLike) -> str:
    """Whether values rise along their last axis everywhere."""
    return str(bool((np.diff(np.asarray(values)) > 0).all()))


class Fig21(NamedTuple):
    """Tokens/s of the target with drafts, and alone.

    Parameters
    ----------
    sequence, tree
        By draft, shape (acceptances, windows) [1/s].
    alone
        Without one [1/s].
    """

    sequence: dict[str, Floats]
    tree: dict[str, Floats]
    alone: float


@cache
def _fig_21() -> Fig21:
    """All drafts on the chips of the target."""
    return Fig21(
        {draft: _tokens_per_s(draft, "sequence") for draft in DRAFTS},
        {draft: _tokens_per_s(draft, "tree") for draft in DRAFTS},
        float(_tokens_per_s(SMALL, "sequence", np.zeros(1, np.int64))[0, 0]),
    )


def _seconds(model: str) -> PassSeconds:
    """Time of a pass of a model over tokens at once, on all chips."""
    sizes, group = Sizes.of(MODELS.load(model)), TensorGroup.of(ACCELERATORS.load(CHIP), CHIPS)
    return lambda tokens: pass_time(sizes, group, work=Pass(tokens=tokens)).total_s


def _tokens_per_s(draft: str, scheme: Scheme, windows: Ints = WINDOWS) -> Floats:
    """Tokens/s at all points, shape (acceptances, windows) [1/s]."""
    found = speculate(
        windows,
        ACCEPTANCES[:, None],
        scheme=scheme,
        draft_s=_seconds(draft),
        target_s=_seconds(TARGET),
    )
    return np.asarray(1 / found.tpot_s)


def fig_21_statements(found: Fig21) -> Iterator[Measured]:
    """Which draft and which window are good."""
    sequence, tree = found.sequence, found.tree
    fastest = {DRAFTS[at] for at in np.argmax([tree[one] for one in DRAFTS], axis=0).flat}
    yield "Fig. 21, tree: fastest draft at every point", " and ".join(sorted(fastest))
    shorter = _best_windows(tree[SMALL]) < _best_windows(sequence[SMALL])
    yield "Fig. 21: a tree wants a shorter window than a sequence", str(bool(shorter.all()))
    longest = max(float(one[:, -1].max()) for one in tree.values())
    yield "Fig. 21, tree of 8 levels: over no draft, at most", longest / found.alone
    good = [sequence[draft] / found.alone for draft in (SMALL, MEDIUM)]
    yield "Fig. 21, sequence: draft of 68M or 8B over none, at least", float(np.min(good))
    large = sequence[LARGE]
    yield "Fig. 21, sequence: draft of 70B over none, at least", float(large.min() / found.alone)
    yield (
        "Fig. 21, sequence: draft of 70B over that of 8B, at most",
        float((large / sequence[MEDIUM]).max()),
    )
    every = np.stack([sequence[draft] for draft in DRAFTS])
    yield "Fig. 21, sequence: more acceptance, more tokens/s", _rises(np.swapaxes(every, 1, 2))
    likely = [sequence[draft][-1] for draft in (SMALL, MEDIUM)]
    yield (
        "Fig. 21, sequence: a longer window at the highest acceptance, more tokens/s",
        _rises(likely),
    )


def _best_windows(tokens_per_s: Floats) -> Ints:
    """Fastest window of each acceptance [1]."""
    found: Ints = WINDOWS[np.argmax(tokens_per_s, axis=1)]
    return found
