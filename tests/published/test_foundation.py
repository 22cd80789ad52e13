"""The 4D paper's repository and appendix: all optima are exact, and what the text says can fail."""

from collections.abc import Callable, Mapping

import pytest

from netplan import search
from netplan.published import foundation
from netplan.published.checks import Check
from netplan.published.foundation import configuration_checks
from netplan.records import replace

Suites = Mapping[str, Callable[[], tuple[Check, ...]]]


def test_all_optima_of_the_repository_are_exact(suites: Suites) -> None:
    checks = suites["optimal configurations"]()
    assert len(checks) == len({one.name for one in checks}) == 240
    assert {one.grade for one in checks} == {"exact"}
    assert {one.verdict for one in checks} == {"pass"}


def test_an_optimum_that_is_off_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = foundation.optimum

    def slower(*case: object) -> object:
        found = right(*case)
        return replace(found, iteration_time_s=found.iteration_time_s * (1 + 3e-6))

    monkeypatch.setattr(foundation, "optimum", slower)
    first = next(configuration_checks())
    assert (first.verdict, first.expected) == ("fail", "614.2019, 73.42105")


def test_what_the_appendix_says(suites: Suites) -> None:
    checks = {one.name: one for one in suites["foundation appendix"]()}
    assert len(checks) == 27 + 20 + 3 + 10
    # A node's links: 4 of them for two GPUs, 12 for four; between nodes as many cards as GPUs.
    assert checks["all_gather on 32 A100: time with 2 over 4 GPUs a node"].got == "2"
    assert checks["Perlmutter, GPT3-175B: optimum (n_t, n_p, n_d, b_m)"].grade == "exact"
    assert checks["2D over 1D: median speed-up, %"].grade == "source"
    assert not [one.name for one in checks.values() if one.grade == "off"]


def test_volumes_of_the_tables_by_hand(suites: Suites) -> None:
    """In b l e of one sequence: weights of e x e are e / l = 25,600 / 2,048 = 12.5 of them."""
    got = {
        one.name: float(one.got) for one in suites["foundation appendix"]() if "b l e" in one.name
    }
    assert len(got) == 10
    assert got["1D, all_gather: volume of a layer, b l e"] == 2  # before attention and MLP
    # On 4 x 2: two of b l e / 2, and K and V of b l e / 4 each.
    assert got["2D, all_gather: volume of a layer, b l e"] == 2 / 2 + 2 / 4
    # V2: activations over 2, weights of e x 4 e over 4.
    assert got["SUMMA, first product of the MLP: volume, b l e"] == 1 / 2 + 4 * 12.5 / 4
    assert got["SUMMA, second product of the MLP: volume, b l e"] == 4 / 2 + 4 * 12.5 / 4
    assert got["SUMMA, Q, K and V: volume, b l e"] == 1 / 2 + 3 * 12.5 / 4


def test_published_code_cuts_a_domain_to_the_cluster() -> None:
    asked = {
        "gpus": 32,
        "accelerator": "b200",
        "model": "gpt-175b",
        "batch": 1024,
        "mode": "published-code",
    }
    larger, whole = (search("rail-only-paper", hb_size=size, **asked) for size in (64, 32))
    assert larger.best.iteration_time_s == whole.best.iteration_time_s
    assert larger.inputs["hb_size"] == 32
