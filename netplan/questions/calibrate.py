"""Calibration on your own cluster: measurements in, catalog files and their errors out."""

import datetime as dt
import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from netplan.answers.calibrate_answer import Calibrated
from netplan.calibration import kernel_fits
from netplan.calibration.cluster import Bases, Fits, Origin, own_records, startable, trainable
from netplan.calibration.dated_runs import arrays_of
from netplan.calibration.measurements import read_nccl_tests, table_text
from netplan.calibration.run_fits import TrainingProblem
from netplan.calibration.runs import CALIBRATIONS, Calibration
from netplan.calibration.steps import STEP_COLUMNS, STEP_EXAMPLES, read_steps
from netplan.errors import InputError
from netplan.files import reachable
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.stacks import STACKS, default_stack
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader
from netplan.setup.asking import function_of
from netplan.setup.own_inputs import list_field, option_field
from netplan.setup.question import Question
from netplan.traffic.measured_links import MeasuredLinks
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

NAME = re.compile(r"[A-Za-z][\w.-]{0,63}")
TEMPLATES = {
    "gemm": table_text(kernel_fits.PRODUCT_COLUMNS, kernel_fits.PRODUCT_EXAMPLES),
    "steps": table_text(STEP_COLUMNS, STEP_EXAMPLES),
}
"""Tables to fill in, by the option that takes them."""


@dataclass(frozen=True, kw_only=True)
class Calibrate(Question[Calibrated]):
    """Fit an accelerator, its links and a training stack to measurements of your own cluster.

    Measured matrix products and collectives give the block `measured:` of an accelerator file and a
    file of its links, step times of training runs its block `training:` and a file of the training
    stack. Each fit begins with what the files of accelerator and stack say, and moves a number as
    far as the measurements ask for; those that they say little about are named. Runs with a month
    of their software may have experts or Mamba blocks; the files carry the error bar of runs that
    were left out of the fit. They are
    written into a catalog folder of yours by --into; without it the answer says what they would be.

    Raises
    ------
    CatalogError
        If a file of measurements is none: file and line.
    InputError
        If nothing is given to fit, or too little of it.
    """

    command: ClassVar[str] = "calibrate"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan calibrate --template steps -o steps.csv",
        "netplan calibrate --accelerator h100-80gb --gemm gemm.csv --steps steps.csv",
        "netplan calibrate --accelerator h200 --collectives 'nccl/*.txt'",
    )

    accelerator: str | None = option_field("On which GPU: the fit begins with its file.")
    stack: str | None = option_field(
        "Training software: the fit begins with its file.", otherwise="what trains on the GPU"
    )
    gemm: tuple[str | Path, ...] = list_field(
        "Times of matrix products: CSV, a file or a pattern in quotes.", "path", metavar="FILE"
    )
    collectives: tuple[str | Path, ...] = list_field(
        "Output of nccl-tests, a file or a pattern in quotes.", "path", metavar="FILE"
    )
    steps: tuple[str | Path, ...] = list_field(
        "Step times of training runs: CSV, a file or a pattern in quotes.", "path", metavar="FILE"
    )
    name: str | None = option_field(
        "Name of the new files.", otherwise="the accelerator's, with -own"
    )

    def ask(self) -> Calibrated:
        """Read, fit, and make the files."""
        given = {
            "gemm": _files("--gemm", self.gemm),
            "collectives": _files("--collectives", self.collectives),
            "steps": _files("--steps", self.steps),
        }
        gemm, collectives, steps = given.values()
        if not (gemm or collectives or steps):
            raise InputError("nothing to fit: give --gemm, --collectives or --steps")
        if self.accelerator is None:
            raise InputError("on which GPU was measured? give --accelerator, such as h100-80gb")
        reader = self.reader()
        accelerator = reader.load(ACCELERATORS, self.accelerator)
        name = self.name or f"{accelerator.name}-own"
        if not NAME.fullmatch(name):
            raise InputError(
                f"--name {name!r:.80}: begin with a letter, then letters, digits, - _ or ."
            )
        links = MeasuredLinks.of(accelerator, reader.load)
        bases = Bases(
            accelerator, links.domain, reader.load(STACKS, self.stack or default_stack(accelerator))
        )
        calibration = reader.load(CALIBRATIONS, "own-cluster")
        messages = [message for path in collectives for message in read_nccl_tests(path)]
        fits = Fits(
            kernel_fits.fit_products(gemm, accelerator, calibration),
            kernel_fits.fit_collectives(messages, accelerator, bases.link, calibration),
            None,
        )
        if steps:
            bases, fits = _fit_steps(reader, steps, bases, fits, calibration)
        today = dt.datetime.now(tz=dt.UTC).date().isoformat()
        origin = Origin(name, today, gemm, collectives, steps)
        texts = {flag: [str(path) for path in paths] for flag, paths in given.items()}
        inputs = self.inputs(name=name, set=reader.replaced(), **texts)
        return Calibrated(inputs, bases, fits, origin, tuple(own_records(bases, fits, origin)))


calibrate = function_of(Calibrate)


def _fit_steps(
    reader: CatalogReader, steps: Sequence[Path], bases: Bases, fits: Fits, calibration: Calibration
) -> tuple[Bases, Fits]:
    """The fit of step times, and the accelerator with all rates that it began with."""
    model = reader.load(ITERATION_MODELS, "calibrated").calibration
    if model is None:
        raise InputError("iteration model calibrated has no part calibration: mend its file")
    load = partial(reader.load, MODELS)
    runs = read_steps(steps, bases.accelerator, bases.stack, load)
    kernel_fits.require_rows("training runs", len(runs))
    precisions = tuple(dict.fromkeys(run.precision for run in runs))
    dated = any(run.recipe is not None for run in runs)
    accelerator = trainable(bases.accelerator, calibration, precisions, dated=dated)
    stack = startable(bases.stack, model) if dated else bases.stack
    placed = [replace(run, accelerator=accelerator, stack=stack) for run in runs]
    problem = TrainingProblem.of(arrays_of(placed, model), calibration)
    fitted = problem.fitted_rows()
    return (
        bases._replace(accelerator=accelerator, stack=stack),
        Fits(fits.products, fits.collectives, fitted, tuple(placed), problem.rows),
    )


def _files(flag: str, paths: Sequence[str | Path]) -> tuple[Path, ...]:
    """Files as given, patterns replaced by what they match."""
    files: list[Path] = []
    for path in map(Path, paths):
        matching = [path]
        if not reachable(path).exists():
            # Patterns may be absolute, which those of pathlib are not.
            matching = sorted(map(Path, glob.glob(str(path))))  # noqa: PTH207
        if not matching:
            raise InputError(f"{flag} {path}: no such file")
        files += matching
    if len(set(files)) < len(files):
        raise InputError(f"{flag}: a file is given twice: give each once")
    return tuple(files)
