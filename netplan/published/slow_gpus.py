"""What is printed of one slow GPU that all others wait for.

Sources of slow GPUs print how often they are met and what jobs lose to them in the mean (Falcon,
arXiv:2410.12588, and Greyhound, USENIX ATC 2025: 1.34 times; ByteDance, arXiv:2505.05713), and not
the plans and rates that a simulation needs: they give no rows. A post has one run of 16 GPUs, of
which the direction can be held.
"""

from collections.abc import Iterator

from netplan.published.checks import Check, claim
from netplan.questions.simulate import Simulate

PRINTED, SHARE = 5.0, 0.2
"""Throughput that one throttled GPU of 16 takes, and the rate that it must have lost for that [1].

In step no run is slower than its slowest GPU.
"""


def slow_gpu_checks() -> Iterator[Check]:
    """One throttled GPU of 16 that train in step.

    Yields
    ------
    Check
        How many times slower the run is.
    """
    asked = {"gpus": 16, "model": "llama-3-8b", "zero_stage": 3}
    fixed = {"tensor": 1, "pipeline": 1}
    slow = Simulate.on("hgx-h100", **asked, fixed=fixed, slow=(f"gpu-5={SHARE}",)).ask().found
    times = slow.iteration_time_s / (slow.intact_time_s or slow.iteration_time_s)
    got = f"{times:.2g} at a fifth of its rate"
    yield claim("one throttled GPU of 16: times slower", got, met=1 < times <= PRINTED)
