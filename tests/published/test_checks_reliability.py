"""Checks of reliability in ``netplan verify``: verdicts, speed, and that they can fail."""

from time import process_time

import numpy as np
import pytest

from netplan.errors import CatalogError, InputError, UnknownNameError
from netplan.faults.years.forecast import causes_of
from netplan.faults.years.outages import Mean
from netplan.faults.years.rates import FAILURE_BOOKS
from netplan.published import reliability
from netplan.published.checks import published
from netplan.published.reliability import _holds, reliability_checks
from netplan.published.verify import verify

AIM_S = 1.5
CHECKS = list(reliability_checks())


def test_all_pass_but_those_that_are_known() -> None:
    found = {verdict: [c for c in CHECKS if c.verdict == verdict] for verdict in ("fail", "known")}
    assert found["fail"] == []
    # The network's stops, RSC-1 and Crusoe are not what others predict.
    assert [(c.grade, c.expected, c.got) for c in found["known"] if c.grade != "trend"] == [
        ("source", "30.1", "35.3"),
        ("off", "35", "54"),
        ("source", "4355", "941 to 2313"),
        ("source", "205", "on 1,848 to 20,556 GPUs"),
        ("source", "7.9", "28.8"),
    ]
    assert all(c.reason for c in found["known"])


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("unexpected interruptions", "419"),
        ("hours between interruptions", "3.09"),
        ("per 1000 node-days", "3.79"),
        ("shares that are their counts", "17 of 18"),
        ("simulated causes in the 95 % interval of their count", "18 of 18"),
        ("no switch of 256 down, %", "93"),
        ("no switch of 384 down, %", "89"),
        ("no switch of 640 down, %", "83"),
        ("GPU and HB gear: interruptions by book 2026", "177"),
        ("racks: interruptions by book 2026", "3.33"),
        ("Llama 3: failures, 90 % by the other clusters", "46 to 886"),
        ("B200: failures, 90 % by the other clusters", "2 to 39"),
        ("hours to failure, 16,384 GPUs", "1.8"),
        ("hours to failure, 131,072 GPUs", "0.23"),
        ("usable cubes of 144 at 95 %", "130"),
        ("best interval, 24 h between failures, min", "117"),
        # 2,048 x (0.00057 + 0.00051 / 64) = 1.184.
        ("crashes a month of one job", "1.18"),
        ("effective time by default, 16,384 H100, interruptions of book 2026, %", "90.4"),
        ("effective time by default, 16,384 H100, interruptions of its own, %", "90.8"),
        ("effective time of a job on 9,600 GPUs, %", "96.6"),
    ],
)
def test_published_numbers(name: str, got: str) -> None:
    assert [check.got for check in CHECKS if check.name == name] == [got]


@pytest.mark.parametrize(("got", "verdict"), [(0.904, "known"), (0.89, "fail"), (0.97, "fail")])
def test_more_than_90_percent_is_not_any_larger_share(
    got: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reliability, "default_time", lambda *_, **__: got)
    by_default = [c for c in reliability._by_default() if c.expected == "> 90"]
    assert [c.verdict for c in by_default] == [verdict, verdict]


def test_it_says_which_causes_are_tests_and_which_are_not() -> None:
    by_cause = {c.name.partition(":")[0]: c.reason for c in CHECKS if "by book 2026" in c.name}
    made = {name for name, reason in by_cause.items() if "made of this count" in reason}
    assert set(by_cause) - made == {"network", "racks", "power feeds"}
    # 16,384 links at 2 x 0.00876 + 0.00458 and 512 leaves at 0.00612 a year, against 35 in 54 days.
    assert by_cause["network"].startswith("365 a year against 237")


def test_clusters_are_those_of_the_books() -> None:
    for row in published("clusters"):
        book, failures = FAILURE_BOOKS.load(row["book"]), int(row["failures"])
        if not row["accelerators"]:
            events = [one.observed.events for one in book.rates if one.observed is not None]
            assert sum(events) == failures  # shares alone
            continue
        causes = causes_of(book, {"gpu": int(row["accelerators"]), "circuit_switch": 0})
        hardware = {one.cause for one in book.rates if one.kind not in {"software", "unknown"}}
        a_year = sum(one.rate_per_year * one.count for one in causes if one.name in hardware)
        assert a_year * float(row["days"]) / 365 == pytest.approx(failures, abs=1)


def test_the_job_size_of_the_crashes_is_said() -> None:
    # 1 / (0.00057 + 0.00051 / 64) = 1,730; 1 / 0.00051 = 1,961 switches.
    reason = next(c.reason for c in CHECKS if c.name.startswith("crashes a month"))
    assert "1,730 to 3,460 GPUs" in reason
    assert "1,961 to 3,922" in reason


def test_the_same_verdicts_each_time() -> None:
    start = process_time()
    assert list(reliability_checks()) == CHECKS
    assert process_time() - start < AIM_S


def test_verify_runs_them() -> None:
    answer = verify(only="Daly 2006")
    assert (answer.count("pass"), answer.failed) == (3, False)
    assert verify(only="Simulation, closed form").count("pass") == 5


def test_a_wrong_closed_form_would_fail() -> None:
    rng = np.random.default_rng(1)
    found = Mean.of(rng.normal(0.9, 0.01, 500))
    assert _holds("ratio", 0.9, found).verdict == "pass"
    assert _holds("ratio", 0.903, found).verdict == "fail"


# --- exposures ---------------------------------------------------------------------------------


def test_causes_are_rows_times_units() -> None:
    book = FAILURE_BOOKS.load("2026")
    units = dict.fromkeys(
        (
            *("gpu", "nic_port", "transceiver", "fibre", "dac", "aec", "aoc"),
            *("leaf_switch", "upper_switch", "engine"),
        ),
        16,
    )
    causes = causes_of(
        book,
        units | {"circuit_switch": 0},  # type: ignore[arg-type]
        end="high",
        pools={"switch": "switches"},
        interrupts={"Leaf switch": 0.25},
    )
    leaf = next(cause for cause in causes if cause.name == "Leaf switch")
    assert (leaf.rate_per_year, leaf.count, leaf.interrupts) == (0.0808, 16, 0.25)
    assert (leaf.repair_h, leaf.lead_h, leaf.pool) == (32.5, 2688, "switches")
    server = next(cause for cause in causes if cause.name == "Server hardware")
    assert (server.count, server.pool) == (2, "")
    assert next(c for c in causes if c.name == "Upper switch").interrupts == 0


def test_unknown_causes_pools_and_units_are_refused() -> None:
    book = FAILURE_BOOKS.load("rsc-1")
    with pytest.raises(UnknownNameError, match="unknown cause 'Node'"):
        causes_of(book, {"gpu": 8}, interrupts={"Node": 0.5})
    with pytest.raises(InputError, match="a pool for 'gpu', of which failures rsc-1 has no row"):
        causes_of(book, {"gpu": 8}, pools={"gpu": "shelf"})
    with pytest.raises((InputError, CatalogError), match="counted per circuit_switch"):
        causes_of(FAILURE_BOOKS.load("tpu-v4"), {"gpu": 4096})
