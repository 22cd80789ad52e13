"""Keywords of questions about one training run on one fabric."""

from collections.abc import Mapping
from pathlib import Path
from typing import NotRequired, Required

from netplan.performance.setting import TrainingKeywords
from netplan.traffic.patterns import Pattern


class RunQuestion(TrainingKeywords):
    """Keywords of `netplan.questions.run.find_workload`."""

    gpus: Required[int]
    radix: NotRequired[int]
    fabric: NotRequired[str]
    hb_size: NotRequired[int | None]
    model: NotRequired[str]
    accelerator: NotRequired[str]
    batch: NotRequired[int | None]
    iteration_model: NotRequired[str]
    oversubscription: NotRequired[float | None]
    algorithm: NotRequired[Pattern]
    fixed: NotRequired[Mapping[str, int] | None]
    catalog: NotRequired[str | Path | None]
    overrides: NotRequired[Mapping[str, str] | None]
