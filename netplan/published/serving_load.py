"""Serving under load: queues with laws, a batch that another program simulated, caches over cards.

The batch's values stand in `reports/published/serving-simulation.csv`, to six digits, from the same
generator. M/D/1 queues, of which the first two cases are, have a mean time of rho S / (2 (1 - rho))
+ S; a simulation of 200,000 requests is a draw of it.

DualPath loads the caches of prompts over the storage cards of servers for decode, too, and sends
them on to prefill (Wu et al., arXiv:2602.21548). Only the abstract was readable, and summaries: of
its clusters not how many servers take prompts and how many decode, of its agents not how long their
prompts are. So netplan's value is a bound: two pools of as many servers, each with a storage card
for its GPUs, and loading that binds both ways, as prompts that are nearly all cached let it. Where
computing binds before the second card is full, less is gained; with more servers for decode, more.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from netplan.performance.serving.arrivals import RequestStream, arrivals
from netplan.performance.serving.batch import BatchOutcome, BatchServer, Spread, simulate_batch
from netplan.performance.serving.queueing import mean_field_step_s, queue_wait_s
from netplan.performance.serving.tiers import read_tiers
from netplan.published.checks import Check, check, claim, published

TABLE = "serving-simulation"
PROGRAM = "plain simulation of a batch, numpy's default_rng(1)"
DIGITS = 1e-5
"""Relative error of six printed digits, with room for one [1]."""
POOL_GPUS = np.array([8, 16])
"""GPUs of prefill alone, and with as many for decode [1]."""


def simulated(row: Mapping[str, str]) -> BatchOutcome:
    """One case of the table, from its own generator.

    Parameters
    ----------
    row
        Its cells by column.

    Returns
    -------
    BatchOutcome
        What became of its requests.
    """
    number = {name: float(text) for name, text in row.items() if name != "case"}
    times_s = arrivals(
        number["rate"], int(number["requests"]), int(number["seed"]), number["burstiness"]
    )
    stream = RequestStream.of(times_s, prompt=int(number["prompt"]), output=int(number["output"]))
    slots, chunk = int(number["slots"]), int(number["chunk"])
    server = BatchServer.linear(number["a"], number["b"], number["c"], slots=slots, chunk=chunk)
    return simulate_batch(stream, server)


def serving_load_checks() -> Iterator[Check]:
    """Simulated batches, laws of queues, and caches over the cards of both pools."""
    rows = {row["case"]: row for row in published(TABLE)}
    outcomes = {case: simulated(row) for case, row in rows.items()}
    for case, row in rows.items():
        outcome = outcomes[case]
        ttft, tpot = Spread.of(outcome.ttft_s), Spread.of(outcome.tpot_s)
        values = {
            "ttft_mean": ttft.mean,
            "ttft_p99": ttft.p99,
            "tpot_mean": tpot.mean,
            "tokens_per_s": outcome.tokens_per_s,
            "in_system": outcome.in_system,
        }
        for name, value in values.items():
            near = abs(value - float(row[name])) <= DIGITS * float(row[name])
            yield check(f"{case}: {name}", PROGRAM, row[name], f"{value:.6g}", same=near)
    for case in ("md1-0.5", "md1-0.8"):
        time_s = float(queue_wait_s(float(rows[case]["rate"]), 0.1)) + 0.1
        yield claim(f"{case}: mean time, closed form, s", f"{time_s:.2f}")
        drawn_s = float(outcomes[case].sojourn_s.mean())
        yield claim(f"{case}: mean time, simulated, s", f"{drawn_s:.4f}")
    for case in ("llm-light", "llm-heavy"):
        numbers = {name: float(rows[case][name]) for name in ("a", "b", "c", "prompt", "output")}
        step_s = mean_field_step_s(
            float(rows[case]["rate"]),
            prompt=numbers["prompt"],
            output=numbers["output"],
            step_s=numbers["a"],
            request_s=numbers["b"],
            prompt_token_s=numbers["c"],
        )
        yield check(
            f"{case}: mean field of TPOT, s", PROGRAM, rows[case]["tpot_mean"], f"{step_s:.6f}"
        )
    (card,) = read_tiers(["remote=1000:6.25:1"])
    alone, both = card.most_rate(1e9, POOL_GPUS)
    for what, least in (("offline, at most", 1.87), ("online, in the mean", 1.96)):
        name = f"DualPath: throughput over loading by prefill alone, {what}"
        yield claim(name, f"{both / alone:.2f}", met=least <= both / alone)
