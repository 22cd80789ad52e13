"""Simulated batches against published values, a plain loop, laws of queues and hand work."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.catalog import shipped_root
from netplan.errors import CatalogError, InfeasibleError, InputError
from netplan.performance.serving.arrivals import RequestStream, arrivals, read_requests
from netplan.performance.serving.batch import BatchServer, TimeSpread, simulate_batch
from netplan.performance.serving.queueing import (
    mean_field,
    mean_field_step_s,
    most_dealt,
    queue_wait_s,
)
from netplan.records import asdict

EXPECTED = shipped_root() / "reports" / "published" / "serving-simulation.csv"
LLM = {"step_s": 0.012, "request_s": 2e-5, "prompt_token_s": 2e-5}


def expected_rows() -> list[dict[str, str]]:
    with EXPECTED.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", expected_rows(), ids=lambda row: row["case"])
def test_the_expected_file_to_its_six_digits(row: dict[str, str]) -> None:
    number = {name: float(text) for name, text in row.items() if name != "case"}
    times_s = arrivals(number["rate"], int(number["requests"]), 1, number["burstiness"])
    lengths = {"prompt": int(number["prompt"]), "output": int(number["output"])}
    server = BatchServer.linear(
        *(number["a"], number["b"], number["c"]),
        slots=int(number["slots"]),
        chunk=int(number["chunk"]),
    )
    outcome = simulate_batch(RequestStream.of(times_s, **lengths), server)
    got = {"tokens_per_s": outcome.tokens_per_s, "in_system": outcome.in_system}
    for name, spread in (("ttft", outcome.ttft_s), ("tpot", outcome.tpot_s)):
        for part, value in asdict(TimeSpread.of(spread)).items():
            got[f"{name}_{part}"] = value
    assert got == pytest.approx({name: number[name] for name in got}, rel=1e-5, abs=1e-15)
    assert outcome.little == pytest.approx(outcome.in_system, rel=1e-12)


def looped(stream: RequestStream, server: BatchServer) -> tuple[list[float], list[float]]:
    """First and last tokens by the rules alone, one step and one request at a time."""
    count, copies = len(stream.arrival_s), server.copies
    left, got = stream.prompt.tolist(), [0] * count
    need = [1 + int(np.ceil((tokens - 1) / server.tokens)) for tokens in stream.output.tolist()]
    first, last, now, come = [0.0] * count, [0.0] * count, 0.0, 0
    queues: list[list[int]] = [[] for _ in range(copies)]
    running: list[list[int]] = [[] for _ in range(copies)]
    while not all(last):
        if not any(queues) and not any(running):
            now = max(now, float(stream.arrival_s[come]))
        while come < count and stream.arrival_s[come] <= now:
            queues[come % copies].append(come)
            come += 1
        step_s, ended = 0.0, []
        for queue, decoding in zip(queues, running, strict=True):
            budget, tokens, begun = server.chunk - len(decoding), 0, len(decoding)
            for request in list(queue):
                if budget <= 0 or begun >= server.slots:
                    break
                taken = min(budget, left[request])
                left[request] -= taken
                budget, tokens = budget - taken, tokens + taken
                if not left[request]:
                    queue.remove(request)
                    ended.append(request)
                    begun += 1
            if decoding or tokens:
                took_s = server.decode_s[min(len(decoding), len(server.decode_s) - 1)]
                step_s = max(step_s, float(took_s) + server.prompt_token_s * tokens)
        now += step_s
        for request in [*(one for decoding in running for one in decoding), *ended]:
            got[request] += 1
            if got[request] == 1:
                first[request] = now
                running[request % copies].append(request)
            if got[request] == need[request]:
                last[request] = now
                running[request % copies].remove(request)
    return first, last


@st.composite
def batches(draw: st.DrawFn) -> tuple[RequestStream, BatchServer]:
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 30))
    gaps = generator.exponential(draw(st.sampled_from([0.001, 0.05, 2.0])), count)
    times_s = np.cumsum(gaps).round(draw(st.sampled_from([1, 9])))
    stream = RequestStream(
        times_s,
        generator.integers(1, draw(st.sampled_from([2, 40, 400])), count),
        generator.integers(1, draw(st.sampled_from([2, 9, 90])), count),
    )
    slots, chunk = draw(st.integers(1, 9)), draw(st.integers(1, 200))
    decode_s = 0.001 + np.cumsum(generator.random(min(slots, chunk) + 1) * 0.002)
    server = BatchServer(
        decode_s, float(generator.random() * 1e-3), slots, chunk, draw(st.sampled_from([1, 2, 5]))
    )
    return stream, server


@settings(max_examples=80, deadline=None)
@given(batches())
def test_skipped_steps_are_those_of_a_plain_loop(batch: tuple[RequestStream, BatchServer]) -> None:
    stream, server = batch
    outcome = simulate_batch(stream, server)
    first, last = looped(stream, server)
    assert outcome.first_s.tolist() == first
    assert outcome.last_s.tolist() == last


@settings(max_examples=80, deadline=None)
@given(batches())
def test_littles_law_is_an_identity(batch: tuple[RequestStream, BatchServer]) -> None:
    outcome = simulate_batch(*batch)
    # The integral of requests in the system is the sum of their times in it.
    assert outcome.in_system == pytest.approx(outcome.little, rel=1e-12)
    assert (outcome.ttft_s > 0).all()
    assert 0 <= outcome.full_s / outcome.span_s <= 1 + 1e-12


def test_long_quiet_runs_are_skipped_to_the_last_digit() -> None:
    stream = RequestStream.of(np.array([0.0, 3.7, 250.0]), prompt=7, output=4000)
    server = BatchServer.linear(0.01, 1e-3, 1e-4, slots=4, chunk=64)
    outcome = simulate_batch(stream, server)
    first, last = looped(stream, server)
    assert (outcome.first_s.tolist(), outcome.last_s.tolist()) == (first, last)


def test_copies_share_the_longest_step_and_requests_are_dealt_in_turn() -> None:
    # Copy 0 takes 100 prompt tokens, copy 1 takes 10: both wait for 0.01 + 0.1 s.
    stream = RequestStream(np.zeros(2), np.array([100, 10]), np.array([2, 2]))
    server = BatchServer.linear(0.01, 0.0, 0.001, slots=4, chunk=512, copies=2)
    outcome = simulate_batch(stream, server)
    assert outcome.ttft_s == pytest.approx([0.11, 0.11])
    assert outcome.last_s == pytest.approx([0.12, 0.12])


def test_a_step_of_several_tokens_takes_fewer_of_them() -> None:
    # 1 + 9 tokens, 2 a step: 5 steps behind the first, of 0.01 s.
    stream = RequestStream.of(np.zeros(1), prompt=1, output=10)
    server = BatchServer(np.array([0.01, 0.01]), 0.0, 1, 8, tokens=2.0)
    outcome = simulate_batch(stream, server)
    assert outcome.last_s[0] - outcome.first_s[0] == pytest.approx(0.05)
    assert outcome.tpot_s == pytest.approx([0.05 / 9])


def test_who_waits_for_a_slot_is_counted() -> None:
    # One slot: the second waits for all of the first one's 0.01 + 0.01 s, of 0.04 s.
    stream = RequestStream.of(np.zeros(2), prompt=1, output=2)
    outcome = simulate_batch(stream, BatchServer.linear(0.01, 0.0, 0.0, slots=1, chunk=8))
    assert outcome.full_s / outcome.span_s == pytest.approx(0.5)


def test_closed_forms_by_hand() -> None:
    # rho S / (2 (1 - rho)) + S: 0.5 x 0.1 / 1 + 0.1 and 0.8 x 0.1 / 0.4 + 0.1.
    assert queue_wait_s(np.array([5.0, 8.0]), 0.1) + 0.1 == pytest.approx([0.15, 0.30])
    # Exponential service has E[S^2] = 2 S^2, and twice the wait: rho S / (1 - rho).
    assert queue_wait_s(8.0, 0.1, 0.02) == pytest.approx(0.4)
    # t = 0.012 / (1 - 10 (200 x 2e-5 + 2e-5 x 1000)) = 0.012 / 0.76.
    assert mean_field_step_s(10.0, prompt=1000, output=200, **LLM) == pytest.approx(0.012 / 0.76)


@pytest.mark.parametrize(
    ("case", "tpot", "ttft"), [("llm-light", 3e-3, 5e-3), ("llm-heavy", 6e-3, 1e-2)]
)
def test_the_mean_field_meets_the_simulation(case: str, tpot: float, ttft: float) -> None:
    row = {row["case"]: row for row in expected_rows()}[case]
    rate = float(row["rate"])
    step_s = float(mean_field_step_s(rate, prompt=1000, output=200, **LLM))
    decoding = rate * 200 * step_s
    field = mean_field(decoding, 0.012 + 2e-5 * decoding, 0.02, steps=200)
    assert field.rate == pytest.approx(rate, rel=1e-9)
    assert field.step_s == pytest.approx(float(row["tpot_mean"]), rel=tpot)
    assert field.first_s == pytest.approx(float(row["ttft_mean"]), rel=ttft)


def test_copies_that_wait_for_each_other_meet_the_simulation() -> None:
    # Eight copies; each holds n requests, which some rate keeps there.
    server = BatchServer.linear(*LLM.values(), slots=256, chunk=8192, copies=8)
    field = mean_field(16.0, 0.012 + 2e-5 * 16, 0.02, steps=200, copies=8)
    stream = RequestStream.of(arrivals(float(field.rate), 10_000, 1), prompt=1000, output=200)
    outcome = simulate_batch(stream, server)
    assert outcome.tpot_s.mean() == pytest.approx(float(field.step_s), rel=0.04)
    assert outcome.ttft_s.mean() == pytest.approx(float(field.first_s), rel=0.1)


@pytest.mark.parametrize(("copies", "mean"), [(2, 0.1), (16, 3.0), (16, 90.0), (72, 2.0)])
def test_prompts_of_the_fullest_copy(copies: int, mean: float) -> None:
    drawn = np.random.default_rng(1).poisson(copies * mean, 200_000)
    assert most_dealt(copies, mean) == pytest.approx(np.ceil(drawn / copies).mean(), rel=5e-3)
    besides = np.ceil((drawn + 1) / copies).mean()
    assert most_dealt(copies, mean, besides=True) == pytest.approx(besides, rel=5e-3)
    assert most_dealt(1, mean) == mean


def test_saturation_is_refused_with_the_highest_rate() -> None:
    with pytest.raises(InfeasibleError, match="10 requests/s is the highest"):
        queue_wait_s(12.0, 0.1)
    # 1 / (200 x 2e-5 + 2e-5 x 1000) = 41.67.
    with pytest.raises(InfeasibleError, match=r"41\.67 requests/s is the highest"):
        mean_field_step_s(50.0, prompt=1000, output=200, **LLM)


def test_a_trace_is_read_in_any_order_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("model,output,prompt,arrival_s\nx,20,100,0\nx,30,200,1.5\n\n", "utf-8")
    stream = read_requests(path)
    assert (stream.arrival_s.tolist(), stream.prompt.tolist()) == ([0.0, 1.5], [100, 200])
    assert stream.output.tolist() == [20, 30]
    assert stream.rate == pytest.approx(1 / 1.5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ":1: no column 'arrival_s'"),
        ("arrival_s,prompt,output\n", ": no request in it"),
        ("arrival_s,prompt,output\n0,1,1\n1,1,0\n", ":3: output is 0: give tokens"),
        ("arrival_s,prompt,output\n0,-1,1\n", ":2: prompt is -1"),
        ("arrival_s,prompt,output\n0,1e9,1\n", ":2: prompt is 1e9"),
        ("arrival_s,prompt,output\n0,99999999999999999999,1\n", ":2: prompt is"),
        ("arrival_s,prompt,output\nnan,1,1\n", ":2: arrival_s is nan"),
        ("arrival_s,prompt,output\n-1,1,1\n", ":2: arrival_s is -1"),
        ("arrival_s,prompt,output\n5,1,1\n4,1,1\n", ":3: arrival_s 4 is before 5"),
        ("arrival_s,prompt,output\n5,1\n", ":2: 2 cells"),
        ('arrival_s,prompt,output\n"5,1,1\n', ":3: not CSV"),
    ],
)
def test_hostile_traces_have_a_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as refusal:
        read_requests(path)
    assert f"{path}{told}" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_trace_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"arrival_s,prompt,output\n\xff\xfe")
    with pytest.raises(CatalogError, match=":2: not UTF-8"):
        read_requests(path)


@pytest.mark.parametrize(
    ("rate", "burstiness"), [(0.0, 1.0), (-1.0, 1.0), (np.inf, 1.0), (1.0, 0.0)]
)
def test_rates_are_above_nothing(rate: float, burstiness: float) -> None:
    with pytest.raises(InputError, match="give a number above 0"):
        arrivals(rate, 3, 1, burstiness)


def test_nothing_is_served_without_room() -> None:
    stream = RequestStream.of(np.zeros(1), prompt=1, output=1)
    with pytest.raises(InputError, match="serves nothing"):
        simulate_batch(stream, BatchServer(np.zeros(1), 0.0, 0, 1))
