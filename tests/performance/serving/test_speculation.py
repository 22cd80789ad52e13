"""Speculative decoding: the forms against every outcome, against chance, and in their limits."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.inputs.choices import Scheme
from netplan.performance.serving.speculation import (
    checked_tokens,
    speculate,
    step_s,
    tokens_per_step,
)

SCHEMES: tuple[Scheme, ...] = ("sequence", "tree")
BRANCHES = {"sequence": 1, "tree": 2}


def accepted(outcomes: Sequence[bool], window: int, branches: int) -> int:
    """Tokens of a step, whose drafts stand level by level: any accepted branch goes on."""
    tokens, node, start = 1, 0, 0
    for level in range(window):
        mine = [start + node * branches + branch for branch in range(branches)]
        good = [at for at in mine if outcomes[at]]
        if not good:
            break
        tokens, node = tokens + 1, good[0] - start
        start += branches ** (level + 1)
    return tokens


def all_outcomes(window: int, branches: int, acceptance: float) -> Iterator[tuple[float, int]]:
    """Probability and tokens of every set of drafts that the target accepts."""
    drafts = sum(branches ** (level + 1) for level in range(window))
    for outcomes in product((False, True), repeat=drafts):
        taken = sum(outcomes)
        yield (
            acceptance**taken * (1 - acceptance) ** (drafts - taken),
            accepted(outcomes, window, branches),
        )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.8, 1.0])
def test_tokens_are_the_mean_over_every_outcome(scheme: Scheme, acceptance: float) -> None:
    # 2^3 and 2^8 sets of drafts, and 2^14 of the three levels of a tree.
    for window in (1, 2, 3) if scheme == "tree" else (1, 3, 8):
        every = [*all_outcomes(window, BRANCHES[scheme], acceptance)]
        assert sum(chance for chance, _ in every) == pytest.approx(1)
        mean = sum(chance * tokens for chance, tokens in every)
        assert tokens_per_step(window, acceptance, scheme) == pytest.approx(mean)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tokens_are_the_mean_by_chance(scheme: Scheme) -> None:
    generator, window, steps = np.random.default_rng(7), 5, 40_000
    goes_on = (generator.random((steps, window, BRANCHES[scheme])) < 0.6).any(axis=2)
    tokens = 1 + np.cumprod(goes_on, axis=1).sum(axis=1)
    within = 4 * tokens.std() / np.sqrt(steps)  # four standard errors, 0.04
    assert tokens_per_step(window, 0.6, scheme) == pytest.approx(tokens.mean(), abs=within)


def test_limits_and_a_case_by_hand() -> None:
    windows = np.arange(9)
    for scheme in SCHEMES:
        assert tokens_per_step(windows, 1.0, scheme) == pytest.approx(windows + 1.0, rel=1e-15)
        assert tokens_per_step(windows, 0.0, scheme) == pytest.approx(np.ones(9), rel=1e-15)
    # Near 1 the quotient (1 - p^(K+1)) / (1 - p) has lost its digits; the sum has not.
    assert tokens_per_step(100, 1 - 1e-15) == pytest.approx(101, rel=1e-12)
    assert tokens_per_step(2, 0.5) == 1 + 1 / 2 + 1 / 4
    assert tokens_per_step(2, 0.5, "tree") == 1 + 3 / 4 + 9 / 16  # p = 1 - 1/4


@given(st.integers(0, 20), st.floats(0, 1), st.floats(0, 1), st.sampled_from(SCHEMES))
def test_more_is_never_fewer_tokens(
    window: int, acceptance: float, other: float, scheme: Scheme
) -> None:
    low, high = sorted((acceptance, other))
    tokens = tokens_per_step(window, low, scheme)
    assert 1 <= tokens <= window + 1
    assert tokens <= tokens_per_step(window, high, scheme)
    if window:
        assert tokens_per_step(window - 1, low, scheme) <= tokens
    assert tokens_per_step(window, low) <= tokens_per_step(window, low, "tree")


def draft_s(tokens: Ints) -> Floats:
    """1 s, and a hundredth a token."""
    return 1 + tokens / 100


def target_s(tokens: Ints) -> Floats:
    """Ten times as long."""
    return 10 * draft_s(tokens)


def test_steps_by_hand() -> None:
    # Sequence: 3 x 1.01 + 10.4. Tree: 1.01 + 1.02 + 1.04, and 15 tokens at once in 11.5.
    assert step_s(3, draft_s=draft_s, target_s=target_s) == pytest.approx(13.43)
    assert step_s(3, "tree", draft_s=draft_s, target_s=target_s) == pytest.approx(14.57)
    # Without a window: one token of the target.
    assert step_s(0, "tree", draft_s=draft_s, target_s=target_s) == pytest.approx(10.1)
    times_s = draft_s(np.arange(16))
    assert step_s(3, "tree", draft_s=times_s.__getitem__, target_s=target_s) == pytest.approx(14.57)
    found = speculate(3, 1.0, draft_s=draft_s, target_s=target_s)
    assert found.tpot_s == pytest.approx(13.43 / 4)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_of_windows_and_of_plans_are_their_numbers(scheme: Scheme) -> None:
    windows, factors = np.array([4, 0, 7]), np.array([1.0, 3.0])

    def plans_s(tokens: Ints) -> Floats:
        return factors[:, None] * draft_s(tokens)

    found = np.asarray(step_s(windows, scheme, draft_s=plans_s, target_s=target_s))
    for plan, at in np.ndindex(2, 3):
        window = int(windows[at])
        levels = 2 ** np.arange(window) if scheme == "tree" else np.ones(window, int)
        drafted = sum(factors[plan] * (1 + int(one) / 100) for one in levels)
        whole = drafted + target_s(checked_tokens(window, scheme))
        assert found[plan, at] == pytest.approx(float(whole))


def test_a_tree_of_one_token_a_level_holds_its_drafts_and_the_last_known_token() -> None:
    for window in range(6):
        assert checked_tokens(window, "tree") == 1 + sum(2**level for level in range(1, window + 1))
        assert checked_tokens(window) == 1 + window


@pytest.mark.parametrize(
    ("window", "acceptance", "scheme", "message"),
    [
        (-1, 0.5, "sequence", "window: got -1, use a whole number of at least 0"),
        (1.5, 0.5, "sequence", "window: got 1.5, use a whole number of at least 0"),
        (2, 1.5, "sequence", "acceptance: got 1.5: give the share of drafted tokens"),
        (2, -0.1, "tree", "acceptance: got -0.1, use a finite number of at least 0"),
        (21, 0.5, "tree", "window: got 21: a tree has at most 20 levels"),
        (2, 0.5, "forest", "unknown scheme 'forest': use one of sequence, tree"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    window: int, acceptance: float, scheme: Scheme, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        tokens_per_step(window, acceptance, scheme)
