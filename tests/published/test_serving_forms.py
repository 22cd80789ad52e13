"""Checks of serving against DFModel: they pass, and they can fail."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

from netplan.performance.serving.closed_form import PassTime, ServingPhase
from netplan.published.checks import Check, Measured, checks_of
from netplan.published.dataflow import (
    ACCEPTANCES,
    DRAFTS,
    WINDOWS,
    fig_20_statements,
    fig_21_statements,
)


def test_sentences_hold(suites: Mapping[str, Callable[[], tuple[Check, ...]]]) -> None:
    checks = suites["serving forms"]()
    assert [one.name for one in checks if one.verdict == "fail"] == []
    beyond = [one.name for one in checks if one.grade == "source"]
    assert [name.rpartition(":")[2] for name in beyond] == [
        " modelled, tokens/s",
        " off what was measured, %",
    ]
    assert len({one.name for one in checks}) == len(checks) == 17


def verdicts(statements: Iterator[Measured]) -> dict[str, str]:
    return {one.name: one.verdict for one in checks_of(statements, "serving")}


def test_fig_20_can_fail() -> None:
    # The wrong way round: more chips a stage wait longer, and memory and hops take turns.
    rising = np.arange(1.0, 6.0)
    compute = PassTime(rising, 0 * rising, rising, rising, 0 * rising)
    memory = PassTime(0 * rising, rising, rising, 0 * rising, rising)
    bad = ServingPhase(rising, rising, compute), ServingPhase(rising, rising, memory)
    assert set(verdicts(fig_20_statements(*bad)).values()) == {"fail"}
    good = (
        ServingPhase(-rising, np.full(5, 1100.0), memory),
        ServingPhase(-rising, -rising, compute),
    )
    found = verdicts(fig_20_statements(*good))
    # All are equally fast: more stages give no more tokens.
    assert [name for name, one in found.items() if one == "fail"] == [
        "Fig. 20: more PP, more tokens/s in decode"
    ]


@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_a_throughput_that_is_off_fails(factor: float) -> None:
    for name, value in (("measured", 1100), ("modelled", 1188)):
        row = f"Llama 3 8B on 16 SN40L, TP 16: {name}, tokens/s"
        (check,) = checks_of([(row, factor * value)], "serving")
        assert check.verdict == "fail"


def test_fig_21_can_fail() -> None:
    # Larger drafts are faster, trees want the longest window, acceptance and windows do harm.
    shape = (len(ACCEPTANCES), len(WINDOWS))
    falling = np.arange(0.0, np.prod(shape))[::-1].reshape(shape) + 1
    sequence = {draft: (at + 1) * falling for at, draft in enumerate(DRAFTS)}
    tree = {draft: 1 / one for draft, one in sequence.items()}
    tree |= {DRAFTS[2]: np.full(shape, 9.0)}
    found = verdicts(fig_21_statements(sequence, tree, alone=2.0))
    assert set(found.values()) == {"fail"}
