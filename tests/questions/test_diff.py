"""Two scenarios side by side: by hand, sums over random pairs, what is told and refused."""

import inspect
import json
import re
from math import fsum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import netplan
from netplan.answers.diff_answer import DiffAnswer, Shown
from netplan.answers.diff_sides import Goodput
from netplan.errors import CatalogError, InfeasibleError, InputError, NetplanError, UnknownNameError
from netplan.performance.calibrated_run import Factors
from netplan.performance.error_bars import ErrorBar
from netplan.questions.diff import Diff
from netplan.records import replace
from netplan.scenarios.scenario import SCENARIOS, Scenario

CENT = 0.005
LINE = {"part", "network", "item", "unit", "count_a", "count_b", "money_a", "money_b"}
PRICED = {"difference", "unpriced_a", "unpriced_b"}


def asked(*scenarios: str | Scenario, **given: Any) -> DiffAnswer:  # noqa: ANN401
    answer = netplan.diff(*scenarios, **given)
    assert isinstance(answer, DiffAnswer)
    return answer


def paper_radix(a: int, b: int) -> DiffAnswer:
    """Rail-only of the paper with switches of a and of b ports, at its prices."""
    return asked("rail-only-paper", a={"radix": a}, b={"radix": b}, fabric="rail-only")


def test_lines_and_totals_are_those_of_a_hand_calculation() -> None:
    # 32,768 GPUs in domains of 256 are 256 rails of 128 GPUs. With 128 ports a rail is one switch:
    # 256, and no link between switches: a module at either end of 32,768 links. With 64 ports a
    # rail has 4 leaves and 2 spines: 6 x 256 = 1,536, and as many links again.
    answer = paper_radix(64, 128)
    lines = {line.item: line for line in answer.lines}
    few, many = lines["Switch of 128 ports, 400G"], lines["Switch of 64 ports, 400G"]
    assert (few.count_a, few.count_b, many.count_a, many.count_b) == (0, 256, 1536, 0)
    modules = lines["Transceiver, multimode, 400G"]
    assert (modules.count_a, modules.count_b) == (131_072, 65_536)
    # 748 USD a port, 374 a module.
    assert modules.difference == -65_536 * 374
    assert (many.money_a, few.money_b) == (1536 * 64 * 748, 256 * 128 * 748)
    total = {total.name: total for total in answer.totals}["cost_base"]
    assert total.difference == 256 * 128 * 748 - 1536 * 64 * 748 - 65_536 * 374
    assert answer.parts[0].item == "switches"
    assert answer.parts[0].words == "1,280 switches -49.0 M"


def test_a_bill_and_a_time_are_those_of_cost_and_compare() -> None:
    answer = asked("hgx-b200", "nvl72-gb200", fabric="rail-only")
    for side, name in ((answer.a, "hgx-b200"), (answer.b, "nvl72-gb200")):
        (bill,) = netplan.cost(name, fabrics=("rail-only",)).bills
        assert side.bill.capital == bill.capital
        (row,) = netplan.compare(name, fabrics=("rail-only",)).rows
        assert side.best is not None
        assert row.best is not None
        assert side.best.iteration_time_s == row.best.iteration_time_s
        assert side.row.mfu == row.mfu
    assert answer.time_ratio is not None
    # 8,192 and 4,032 sequences: times are of one each.
    assert answer.time_ratio.each
    ratio = answer.b.row.time_s / 4032 / (answer.a.row.time_s / 8192)
    assert answer.time_ratio.more == pytest.approx(ratio - 1)
    assert "time a sequence" in answer.sentence


CLUSTERS = st.fixed_dictionaries(
    {
        "scenario": st.sampled_from(["hgx-b200", "nvl72-gb200", "rail-only-paper", "tpu-v7"]),
        "gpus": st.integers(8, 4096),
        "radix": st.sampled_from([16, 32, 64, 128]),
        "fabric": st.sampled_from(["rail-only", "rail-optimized", "fat-tree", "torus-2d"]),
        "spares": st.sampled_from([(), ("2%",), ("transceivers=3%",)]),
        "networks": st.sampled_from([(), ("storage",), ("management", "out-of-band")]),
        "prices": st.sampled_from(["2026", "rail-only-2023"]),
    }
)


@settings(max_examples=20)
@given(CLUSTERS, CLUSTERS)
def test_lines_sum_to_the_difference_of_the_totals(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    first, second = dict(first), dict(second)
    names = first.pop("scenario"), second.pop("scenario")
    try:
        answer = asked(*names, a=first, b=second, timing=False)
    except (InputError, InfeasibleError):
        assume(False)
    data = answer.to_dict()
    assert all(set(line) == LINE | PRICED for line in data["lines"])
    sums = {
        key: fsum(line[key] for line in data["lines"])
        for key in ("difference", "money_a", "money_b")
    }
    total = data["totals"]["cost_base"]
    assert abs(sums["difference"] - total["difference"]) < CENT
    assert abs(sums["money_a"] - total["a"]) < CENT
    assert abs(sums["money_b"] - total["b"]) < CENT
    assert abs(fsum(part["difference"] for part in data["parts"]) - total["difference"]) < CENT
    for side, bill in (("a", answer.a.bill), ("b", answer.b.bill)):
        assert sum(line[f"count_{side}"] for line in data["lines"]) == sum(
            item.line.order for item in bill.quote.items
        )
    screen = answer.text(80).splitlines()
    assert len(screen) <= 25
    assert max(map(len, screen)) <= 80


def test_whoever_is_named_last_is_b() -> None:
    there, back = asked("hgx-b200", "nvl72-gb200"), asked("nvl72-gb200", "hgx-b200")
    assert there.more == -back.more
    assert there.a.scenario == back.b.scenario == "hgx-b200"
    assert there.sentence.startswith("nvl72-gb200 instead of hgx-b200: ")


def test_the_same_scenario_differs_in_nothing() -> None:
    answer = asked("hgx-b200", "hgx-b200", timing=False)
    assert not any(line.changed for line in answer.lines)
    assert answer.sentence == "hgx-b200 instead of hgx-b200: the same money."
    assert "8 equal lines" in answer.text()


@pytest.mark.parametrize(
    ("given", "begins"),
    [
        ({"a": {"nic_gbps": 400}, "b": {"nic_gbps": 800}}, "800G instead of 400G"),
        ({"b": {"nic": "800"}}, "800G instead of 400G"),
        ({"a": {"radix": "64"}, "b": {"cluster.radix": 128}}, "radix 128 instead of radix 64"),
        ({"b": {"hb-size": 72}}, "HB 72 instead of HB 8"),
        ({"b": {"fabric": "rail-only"}}, "rail-only instead of rail-optimized"),
        ({"b": {"gpus": "8Ki"}}, "8,192 GPUs instead of 32,768 GPUs"),
        ({"b": {"oversubscription": "2:1"}}, "2:1 instead of 1:1"),
        ({"b": {"accelerator": "h200"}}, "h200 instead of b200-1000w"),
        ({"b": {"pue": 1.2}}, "pue 1.2 instead of pue the book's"),
        (
            {"b": {"prices.prices.transceiver@400.base": "500"}},
            "prices.prices.transceiver@400.base=500 instead of the file's value",
        ),
    ],
)
def test_the_sentence_says_what_differs(given: dict[str, Any], begins: str) -> None:
    answer = asked("hgx-b200", **given, timing=False)
    assert answer.sentence.startswith(f"{begins}: ")
    assert json.loads(json.dumps(answer.to_dict())) == answer.to_dict()


def test_what_is_said_of_one_goes_before_what_is_said_of_both() -> None:
    answer = asked(
        "hgx-b200",
        b={"radix": 64, "accelerator.power_w": "900"},
        radix=32,
        overrides={"accelerator.power_w": "800"},
        timing=False,
        networks=("accelerators",),
    )
    assert [side.bill.fabric.sizing.radix for side in (answer.a, answer.b)] == [32, 64]
    accelerators = 32_768 * (900 - 800)
    network = [
        side.bill.draw.typical_w - 32_768 * watts
        for side, watts in ((answer.a, 800), (answer.b, 900))
    ]
    assert answer.b.bill.draw.typical_w - answer.a.bill.draw.typical_w == pytest.approx(
        accelerators + network[1] - network[0]
    )


def test_cards_of_another_rate_keep_the_capacity_of_switches() -> None:
    answer = asked("hgx-b200", a={"nic_gbps": 400}, b={"nic_gbps": 800}, timing=False)
    sizings = [side.bill.fabric.sizing for side in (answer.a, answer.b)]
    assert [(sizing.radix, sizing.speed_gbps) for sizing in sizings] == [(128, 400), (64, 800)]


def with_bars(answer: DiffAnswer, low: float, high: float, batch: int) -> DiffAnswer:
    """The answer with the second side's time as that of another GPU, and bars for both."""
    bar = ErrorBar(Factors(low=low, high=high), Factors(low=low, high=high), 0.0)
    sides = []
    for side, alike in ((answer.a, ("a",)), (answer.b, ("b",))):
        timed = side.row.timed
        assert timed is not None
        plan = replace(timed.best, error=bar)
        row = replace(side.row, timed=replace(timed, plans=(plan,)))
        sides.append(replace(side, row=row, alike=alike, batch=batch))
    return replace(answer, a=sides[0], b=sides[1])


def test_times_within_the_bars_of_each_other_are_equal() -> None:
    answer = asked("hgx-b200", b={"hb_size": 72})
    assert answer.time_ratio is not None
    # How much longer one takes than the other: a bar of less tells them apart.
    apart = abs(answer.time_ratio.more)
    assert apart > 0.001
    wide = with_bars(answer, 1 / (1 + 2 * apart), 1 + 2 * apart, 8192)
    narrow = with_bars(answer, 1 / (1 + apart / 2), 1 + apart / 2, 8192)
    assert wide.time_ratio is not None
    assert narrow.time_ratio is not None
    assert (wide.time_ratio.equal, narrow.time_ratio.equal) == (True, False)
    assert "% time, within the error" in wide.sentence
    assert " % time" in narrow.sentence
    assert "equal" in wide.text()


def test_like_runs_are_told_apart_by_the_rule_of_all_answers() -> None:
    answer = asked("hgx-b200", b={"fabric": "torus-3d"})
    one, other = answer.a.best, answer.b.best
    assert one is not None
    assert other is not None
    assert answer.time_ratio is not None
    assert answer.time_ratio.equal == one.equals(other)


def test_times_of_two_models_are_not_compared() -> None:
    answer = asked("hgx-b200", "rail-only-paper")
    assert answer.time_ratio is None
    assert "time" not in answer.sentence
    assert "GPT 1T" in answer.text()


def test_what_has_no_price_is_marked_and_named() -> None:
    # At prices of 2023 cards and fibre have none; racks have none in either book.
    answer = asked("hgx-b200", "rail-only-paper", timing=False)
    data = answer.to_dict()
    assert data["totals"]["cost_base"]["bound"] == "≥"
    assert "≥ " in answer.text()
    cards = next(line for line in data["lines"] if line["part"] == "cards" and line["unpriced_b"])
    assert (cards["money_b"], cards["unpriced_b"]) == (0.0, 32_768)
    assert "without a price, so not in it: 32,768 network cards more" in answer.sentence
    assert "no price" in answer.text()
    # Nor does the part of the difference that comes of missing prices speak.
    assert "% of it network cards" not in answer.sentence


def test_a_bound_is_said_in_words() -> None:
    # Of the paper's book fibres and racks have no price: rail-only saves at least as much. 512 x
    # 128 ports of 748 USD and 65,536 modules of 374.
    paper = {"timing": False, "prices": "rail-only-2023"}
    answer = asked("hgx-b200", b={"fabric": "rail-only"}, **paper)
    assert answer.sentence == (
        "rail-only instead of rail-optimized: at least 73.5 M USD less; 67 % of it switches;"
        " without a price, so not in it: 32,768 cables fewer and 32 racks fewer."
    )
    back = asked("hgx-b200", a={"fabric": "rail-only"}, **paper)
    assert ": at least 73.5 M USD more; " in back.sentence


def test_the_range_of_a_difference_is_that_of_shared_prices() -> None:
    answer = asked("hgx-b200", b={"fabric": "rail-only"}, timing=False)
    margin = answer.to_dict()["totals"]["cost_base"]["margin"]
    assert margin["low"] < margin["base"] < margin["high"] < 0
    # Narrower than two ranges that know nothing of each other.
    a, b = answer.a.bill.capital, answer.b.bill.capital
    assert margin["high"] - margin["low"] < (b.high - a.low) - (b.low - a.high)
    assert f"{margin['low'] / 1e6:+.0f} M to {margin['high'] / 1e6:+.1f} M by the book" in (
        answer.sentence
    )


def test_a_network_without_a_price_has_none() -> None:
    # Modules and cards of a third of 400 Gb/s stand in no book.
    answer = asked("hgx-b200", b={"fabric": "torus-3d"})
    assert answer.b.bill.cost is None
    assert "M USD of what has a price, +" in answer.sentence
    (network,) = (line for line in answer.text().splitlines() if line.startswith("Network, "))
    assert network.split()[-3:] == ["310.3", "no", "price"]


def test_a_run_that_fits_nowhere_is_said_to_have_no_time() -> None:
    answer = asked("hgx-b200", b={"gpus": 8})
    assert answer.time_ratio is None
    assert ", no time for 8 GPUs; " in answer.sentence


def test_all_money_is_in_the_currency_of_a() -> None:
    usual = asked("hgx-b200", "nvl72-gb200", timing=False)
    answer = asked("hgx-b200", "nvl72-gb200", a={"currency": "EUR"}, timing=False)
    assert answer.currency == answer.to_dict()["currency"] == "EUR"
    assert answer.b.bill.quote.currency == "EUR"
    assert answer.more / usual.more == pytest.approx(
        answer.a.bill.capital.base / usual.a.bill.capital.base
    )


def test_a_currency_without_a_rate_is_refused(tmp_path: Path) -> None:
    book = (Path(__file__).parents[2] / "costing/prices/rail-only-2023.yaml").read_text("utf-8")
    (tmp_path / "yen.yaml").write_text(
        book.replace("name: rail-only-2023", "name: yen")
        .replace("currency: USD", "currency: JPY")
        .replace("USD/", "JPY/"),
        encoding="utf-8",
    )
    with pytest.raises(CatalogError, match="JPY"):
        asked("hgx-b200", a={"prices": str(tmp_path / "yen.yaml")}, b={}, timing=False)


def test_goodput_is_that_of_faults() -> None:
    given: dict[str, Any] = {"gpus": 512, "radix": 32, "model": "gpt-22b", "batch": 512}
    answer = asked("hgx-b200", b={"fabric": "rail-only"}, goodput=True, **given)
    faults = netplan.faults("hgx-b200", fabrics=("rail-only",), **given)
    assert answer.b.goodput is not None
    assert answer.b.goodput.value == faults.fabrics[0].forecast.goodput
    assert answer.to_dict()["totals"]["goodput"]["b"] == answer.b.goodput.value
    text = answer.text(80)
    for title in ("Network, ", "Power, ", "Iteration ", "Goodput (clusters) "):
        assert f"\n{title}" in text
    assert (
        "goodput" not in asked("hgx-b200", b={"fabric": "rail-only"}, **given).to_dict()["totals"]
    )


def test_totals_stay_however_wide_they_are() -> None:
    answer = asked("hgx-b200", "nvl72-gb200", gpus=1152, radix=64, timing=False)
    kept = Goodput(0.9, 0.01, 0.5, 0.97, is_upper_bound=True)
    wide = replace(answer.a, label="a" * 60, goodput=kept)
    row = Shown("Iteration", "123.45 s (111.11-141.42)", "5.13 s (4.11-6.42)", "+1.5 % " * 5)
    shown = replace(answer, a=wide, b=replace(answer.b, goodput=kept))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiffAnswer, "_time_rows", lambda _: iter((row,)))
        text = shown.text(80)
    spaced = re.sub(" +", " ", text)
    assert "\nIteration 123.45 s 5.13 s" in spaced
    assert "\nGoodput (clusters) ≤ 90.00 % ≤ 90.00 %" in spaced
    assert len(text.splitlines()) <= 25


def test_servers_are_compared_by_their_tokens() -> None:
    answer = asked("serving-70b-h200", b={"accelerator": "b200-1000w"})
    totals = answer.to_dict()["totals"]
    rates = totals["tokens_per_s"]
    assert rates["b"] > rates["a"]
    assert f"{100 * (rates['b'] / rates['a'] - 1):+.1f} % tokens a second" in answer.sentence
    assert {"ttft_s", "tpot_s", "cost_per_million_tokens"} <= set(totals)
    assert "iteration_time_s" not in totals
    with pytest.raises(InputError, match="--goodput is of a training run"):
        asked("serving-70b-h200", b={"accelerator": "b200-1000w"}, goodput=True)


def test_one_may_train_and_the_other_serve() -> None:
    answer = asked("hgx-h100", "serving-70b-h200")
    assert answer.time_ratio is None
    assert {"iteration_time_s", "tokens_per_s"} <= set(answer.to_dict()["totals"])
    # So many figures leave the screen to the bills, and stand in the details.
    assert len(answer.text(80).splitlines()) <= 25
    assert "TPOT" not in answer.text(80)
    assert "TPOT" in answer.text(80, details=True)


@pytest.mark.parametrize("name", [*SCENARIOS.paths()])
def test_every_shipped_scenario_may_stand_on_either_side(name: str) -> None:
    answer = asked(name, b={"fabric": "rail-only"}, timing=name != "hgx-b200")
    assert answer.a.scenario == name
    lines = answer.text(80).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80


def test_what_only_the_simulator_times_is_not_timed() -> None:
    answer = asked("palm-paper", "rail-only-paper")
    assert answer.a.best is None
    assert any("no closed forms" in note for note in answer.a.row.notes)


def test_scenarios_of_python_may_be_given() -> None:
    first = Scenario.load("hgx-b200").replace(gpus=1024, radix=64)
    second = first.replace(fabric="rail-only")
    answer = asked(first, second, timing=False)
    assert answer.b.bill.name == "rail-only"
    assert answer.inputs["other"] == "hgx-b200"


@pytest.mark.parametrize(
    ("scenarios", "given", "error", "message"),
    [
        ((), {}, InputError, "name a second one, or say what differs by --a and --b"),
        (("hgx-b200", "nvl72"), {}, UnknownNameError, "unknown scenario 'nvl72': did you mean nvl"),
        (("a", "b", "c"), {}, InputError, "at most 2 by their place"),
        ((), {"b": {"radx": 64}}, UnknownNameError, "unknown input of diff 'radx'.*radix"),
        ((), {"b": {"goodput": True}}, InputError, "goodput is an input of netplan diff"),
        ((), {"b": {"scenario": "x"}}, InputError, "scenario is an input of netplan diff"),
        ((), {"b": ["radix"]}, InputError, "--b 'radix': write NAME=VALUE, such as radix=64"),
        ((), {"b": ["radix=64", "radix=32"]}, InputError, "--b radix is given twice"),
        ((), {"b": {"gpus": 0}}, InputError, "gpus 0|0 GPUs are out of range"),
        ((), {"b": {"fabric": "no"}}, UnknownNameError, "unknown fabric 'no'"),
        ((), {"b": {"prompt": 5}}, InputError, "--prompt 5 means nothing for training"),
        ((), {"b": {"foo.bar": 5}}, UnknownNameError, "record 'foo'"),
        (
            (),
            {"b": {"ocs": "palomar-136"}},
            NetplanError,
            "joins cubes of a torus|circuit switch .palomar-136.: did",
        ),
    ],
)
def test_wrong_input_is_refused_in_a_line(
    scenarios: tuple[str, ...], given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        asked(*scenarios, **given)
    assert "\n" not in str(caught.value)


def test_details_show_every_line() -> None:
    answer = asked("hgx-b200", "nvl72-gb200", timing=False)
    text = answer.text(100, details=True)
    for line in answer.lines:
        assert line.item in " ".join(text.split())
    # One row a line, then three totals and more.
    assert len(answer.to_frame()) == len(answer.lines)
    assert answer.in_a_line() + "." == answer.sentence


def test_long_names_leave_room_for_the_screen() -> None:
    scenario = Scenario.load("hgx-b200").changed(name="a-very-long-name-" * 12)
    answer = asked(
        scenario, "rail-only-paper", a={"gpus": 4096, "cards": "included"}, b={"gpus": 2048}
    )
    lines = answer.text(80).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80


def test_the_signature_has_both_scenarios_in_front() -> None:
    assert [*inspect.signature(netplan.diff).parameters][:2] == ["scenario", "other"]


def test_it_has_few_inputs_of_its_own() -> None:
    own = [known for known in Diff.inputs_known() if known.group == "question"]
    assert len([known for known in own if known.option.role == "input"]) <= 12
