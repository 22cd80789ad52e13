"""What is printed of one slow GPU that all others wait for.

Sources of slow GPUs print how often they are met and what jobs lose to them in the mean (Falcon,
arXiv:2410.12588, and Greyhound, USENIX ATC 2025: 1.34 times; ByteDance, arXiv:2505.05713), and not
the plans and rates that a simulation needs: they give no rows. A post has one run of 16 GPUs, of
which the direction can be held.
"""

from collections.abc import Iterator

from netplan.published.checks import Check, check
from netplan.questions.simulate import Simulate

POST = "jingchaozhang.github.io, Impact of GPU Thermal Throttling on LLM Training"
PRINTED, SHARE = 5.0, 0.2
"""Throughput that one throttled GPU of 16 takes, and the rate that it must have lost for that [1].

In step no run is slower than its slowest GPU.
"""

REASON = (
    "llama-3-8b stands for the post's Qwen 2.5 of 7B on two servers of H100 under FSDP; the clock"
    " of the throttled GPU was not to be read, a fifth of its rate is the most that gives 5 times"
)


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
    yield check(
        "one throttled GPU of 16: times slower",
        POST,
        "up to 5",
        f"{times:.2g} at a fifth of its rate",
        REASON,
        same=False,
        met=1 < times <= PRINTED,
    )
