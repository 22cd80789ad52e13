"""Catalog files of your own cluster: an accelerator, its links, a training stack, as fitted.

Each is the file that the fit began with, with other numbers where something was measured, and says
so: on which files and rows, when, and how far off predictions are.
"""

import hashlib
from collections.abc import Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import yaml
from msgspec import Struct, to_builtins

from netplan.calibration.fit import ENDS, Fitted, Rows, quantile
from netplan.calibration.kernel_fits import changed_link, starting_rates
from netplan.calibration.measurements import KINDS
from netplan.calibration.runs import Calibration, MeasuredRun
from netplan.catalog import Catalog, Record
from netplan.documents import CoreLoader
from netplan.errors import InputError
from netplan.inputs.choices import Precision
from netplan.performance.calibrated_run import CalibrationPart
from netplan.performance.dated.run import model_kind
from netplan.performance.stacks import STACKS, Stack
from netplan.traffic.measured_links import MEASURED_LINKS, MeasuredLink
from netplan.workloads.accelerators import (
    ACCELERATORS,
    Accelerator,
    DatedRates,
    HeldOut,
    ModelClass,
    TrainingRates,
)
from netplan.workloads.measured_rates import TABLES, MeasuredRates
from netplan.workloads.operations import CollectiveKind

DIGITS = 6
FAR_ERROR = 0.1
"""Mean error of runs that were left out, above which files are not to plan with: published sources
that were left out of the fit are about 6.5 % off in the mean [1]."""
LEAST_OF_A_CLASS = 6
"""Runs of a class of models, left out of the fit, that an error bar is made of at least [1]."""
NOISES = 1.64
"""Standard deviations of a run that a bar reaches at least to either side: nine of ten [1]."""

LEAST_PLAIN, MOST_PLAIN = 1e-3, 1e6
"""Sizes between which numbers are written without an exponent."""

LARGEST_ERROR = 0.9
"""Mean error that a file states at most: bars divide by what it leaves of 1 [1]."""

PROSE = {"notes", "sources"}
"""Keys whose texts stand in lines of their own."""

Told = dict[str, float]


class Origin(NamedTuple):
    """What a fit was made from: the new name, the day, and files of each kind."""

    name: str
    date: str
    gemm: Sequence[Path]
    collectives: Sequence[Path]
    steps: Sequence[Path]


class Fits(Struct, frozen=True, eq=False):
    """All fits of one question."""

    products: dict[Precision, Fitted]
    collectives: dict[CollectiveKind, Fitted]
    steps: Fitted | None
    runs: tuple[MeasuredRun, ...] = ()
    rows: Rows | None = None  # what their predictions were held to

    @property
    def dated(self) -> bool:
        """Whether the runs were made under software of a date."""
        return any(run.recipe is not None for run in self.runs)

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """Of the runs."""
        return tuple(dict.fromkeys(run.precision for run in self.runs))

    @property
    def held_out(self) -> dict[ModelClass, HeldOut]:
        """Error bars of runs that were left out of the fit, by class of their model.

        From the 5th to the 95th percentile of measured over predicted times, and to either side at
        least as far as the noise of a single run reaches.
        """
        if self.steps is None or self.rows is None:
            return {}
        kinds = np.array([model_kind(run.model) for run in self.runs])
        ratios = self.steps.measured_s / self.steps.left_out_s
        noise = np.broadcast_to(self.rows.noise, ratios.shape)
        bars: dict[ModelClass, HeldOut] = {}
        for kind in dict.fromkeys(model_kind(run.model) for run in self.runs):
            of_kind = kinds == kind
            if of_kind.sum() < LEAST_OF_A_CLASS:
                continue
            low, high = (quantile(ratios[of_kind], np.ones(of_kind.sum()), share) for share in ENDS)
            least = NOISES * float(noise[of_kind].max())
            low, high = min(low, 1 / (1 + least)), max(high, 1 + least)
            bars[kind] = HeldOut(runs=int(of_kind.sum()), low=floor_to(low), high=-floor_to(-high))
        return bars

    @property
    def all(self) -> list[Fitted]:
        """Products, collectives, then runs."""
        steps = [self.steps] if self.steps else []
        return [*self.products.values(), *self.collectives.values(), *steps]


def floor_to(value: float) -> float:
    """A ratio rounded down to a thousandth.

    >>> floor_to(0.9487), -floor_to(-1.0512)
    (0.948, 1.052)
    """
    return floor(1000 * value) / 1000


class Bases(NamedTuple):
    """Records that the fits began with."""

    accelerator: Accelerator
    link: MeasuredLink
    stack: Stack


def trainable(
    accelerator: Accelerator,
    calibration: Calibration,
    precisions: Sequence[Precision],
    *,
    dated: bool = False,
) -> Accelerator:
    """The accelerator with a block ``training`` for these precisions, from others' if need be.

    Parameters
    ----------
    accelerator, calibration
        Where the fit begins.
    precisions
        Of the runs.
    dated
        Whether the runs were made under software of a date, of which a block is there already.

    Returns
    -------
    Accelerator
        With shares of the peak in these precisions.

    Raises
    ------
    InputError
        If nothing says how fast its products of a precision could be.
    """
    start = calibration.start
    if start is None:
        return accelerator
    rates: TrainingRates = accelerator.training or start
    peaks = accelerator.narrow_flops_per_s | rates.peaks
    for precision in precisions:
        if precision != "bf16" and precision not in peaks:
            raise InputError(
                f"{accelerator.name} computes no {precision}, as far as its file says: give"
                f" --set accelerator.narrow_flops_per_s.{precision}"
            )
    if dated and rates.dated is not None:
        lacking = [precision for precision in precisions if precision not in rates.dated.gemm]
        lacked = {precision: start.gemm[precision] for precision in lacking}
        block = rates.dated.changed(gemm=rates.dated.gemm | lacked)
        return accelerator.changed(training=rates.changed(dated=block, peaks=peaks))
    missing = {
        precision: start.gemm[precision] for precision in precisions if precision not in rates.gemm
    }
    return accelerator.changed(training=rates.changed(gemm=rates.gemm | missing, peaks=peaks))


def startable(stack: Stack, part: CalibrationPart) -> Stack:
    """The stack with all of its numbers under software of a date, of which some are all stacks'.

    Parameters
    ----------
    stack
        Where the fit begins.
    part
        Numbers of the iteration model.

    Returns
    -------
    Stack
        With a share of tensor collectives that shows, where it overlaps them.
    """
    dated, overlaps = stack.dated, stack.tensor_visible_without_overlap is not None
    if dated is None or part.dated is None or not overlaps or dated.tensor_visible is not None:
        return stack
    return stack.changed(dated=dated.changed(tensor_visible=part.dated.tensor_visible))


def own_records(bases: Bases, fits: Fits, origin: Origin) -> list[tuple[Catalog[Any], Record]]:
    """Records of the cluster, each with its shelf: accelerator, and links and stack if fitted."""
    accelerator = _accelerator(bases.accelerator, fits, origin)
    records: list[tuple[Catalog[Any], Record]] = [(ACCELERATORS, accelerator)]
    if fits.collectives:
        records.append((MEASURED_LINKS, _link(bases.link, fits, origin)))
    if fits.steps:
        records.append((STACKS, _stack(bases.stack, fits, fits.steps, origin)))
    return records


def _accelerator(base: Accelerator, fits: Fits, origin: Origin) -> Accelerator:
    measured = _measured(base, fits, origin)
    if measured:  # tables lie beside the file
        files = {key: f"{origin.name}{TABLES[key]}.csv" for key in measured.tables}
        measured = measured.changed(**files)
    tables = base.tables
    if tables is not None:  # by names; own products go before those of somebody else's GPUs
        names = {kind: Path(place).name.partition(".")[0] for kind, place in tables.named.items()}
        tables = tables.changed(**names | ({"products": ""} if fits.products else {}))
    new = base.changed(
        name=origin.name,
        title=f"{base.title}, as measured ({origin.name})",
        source=f"{base.source}; own measurements as the notes say",
        date=origin.date,
        measured=measured,
        tables=tables,
        notes=(*base.notes, *_notes(fits, origin)),
    )
    if fits.steps is None:
        return new
    values = {
        key.partition(".")[2]: value
        for key, value in _rounded(fits.steps).items()
        if key.startswith("accelerator.")
    }
    return new.changed(training=_training(base, values, fits, origin.name))


def _training(base: Accelerator, values: Told, fits: Fits, name: str) -> TrainingRates:
    rates = cast("TrainingRates", base.training)
    if fits.dated:  # times of no date are those of nobody's runs
        dated = cast("DatedRates", rates.dated)
        gemm = {str(precision): share for precision, share in dated.gemm.items()}
        gemm |= {key.rpartition(".")[2]: value for key, value in values.items()}
        block = dated.changed(gemm=gemm, scored=(name,), held_out=fits.held_out)
        return rates.changed(dated=block, scored={}, held_out={})
    parts: dict[str, dict[str, float]] = {
        "gemm": {str(name): share for name, share in rates.gemm.items()},
        "attention": {str(name): share for name, share in rates.attention.items()},
    }
    for key, value in values.items():
        _, part, *last = *key.split("."), ""
        if part in parts:
            parts[part][last[0]] = value
    # Software of a date has numbers of its own, to which nothing was fitted: it goes.
    return rates.changed(
        **parts,
        wave=values.get("training.wave", rates.wave),
        fitted=True,
        scored={name: fits.precisions},
        held_out=fits.held_out,
        dated=None,
    )


def _measured(base: Accelerator, fits: Fits, origin: Origin) -> MeasuredRates | None:
    if not (fits.products or fits.collectives):
        return base.measured
    known = base.measured or MeasuredRates(source="", date="")
    fitted = {
        dtype: starting_rates(base, dtype).changed(
            **_rounded(product_fit), error=_error(product_fit)
        )
        for dtype, product_fit in fits.products.items()
    }
    files = _files((*origin.gemm, *origin.collectives))
    return known.changed(
        source=f"own measurements ({files}); else {known.source or 'nothing'}",
        date=origin.date,
        products=known.products | fitted,
        collectives=origin.name if fits.collectives else known.collectives,
    )


def _link(base: MeasuredLink, fits: Fits, origin: Origin) -> MeasuredLink:
    link = base
    for kind, collective in fits.collectives.items():
        link = changed_link(link, kind, _rounded(collective))
    worst = max(_error(collective) for collective in fits.collectives.values())
    # Nine of ten rows took so many times what fits without them say, at least and at most.
    ratios = [fitted.measured_s / fitted.left_out_s for fitted in fits.collectives.values()]
    ends = [np.quantile(ratio, ENDS).tolist() for ratio in ratios]
    lows = tuple(max(1, floor(1000 * min(1.0, low))) / 1000 for low, _ in ends)
    highs = tuple(max(1000, ceil(1000 * high)) / 1000 for _, high in ends)
    left = [kind for kind in KINDS.values() if kind not in fits.collectives]
    note = (f"As {base.name}, since not measured: {', '.join(left)}.",) if left else ()
    return link.changed(
        name=origin.name,
        title=f"Links of {origin.name}, as measured inside HB domains",
        source=f"own measurements ({_files(origin.collectives)}); else {base.source}",
        date=origin.date,
        errors=tuple(
            row.changed(
                share=max(row.mean, worst) if left else worst,
                low=min(lows + row.ends[:1] if left else lows),
                high=max(highs + row.ends[1:] if left else highs),
                factor=None,
            )
            for row in base.errors
        ),
        notes=(*base.notes, *note, *_notes(fits, origin)),
    )


def _stack(base: Stack, fits: Fits, steps: Fitted, origin: Origin) -> Stack:
    values: dict[str, Any] = {
        key.partition(".")[2]: value
        for key, value in _rounded(steps).items()
        if key.startswith("stack.")
    }
    by_date = {key: values.pop(key) for key in [*values] if key.startswith("dated.")}
    if not fits.dated:
        values["dated"] = None
    elif base.dated is not None:
        changes = {key.partition(".")[2]: value for key, value in by_date.items()}
        values["dated"] = base.dated.changed(**changes)
    together = f"Fitted together with the block training of accelerator {origin.name}: use both."
    return base.changed(
        **values,
        name=origin.name,
        title=f"{base.title}, as measured ({origin.name})",
        source=f"own runs ({_files(origin.steps)}); else {base.source}",
        date=origin.date,
        notes=(*base.notes, together, _sentence(steps)),
    )


def _notes(fits: Fits, origin: Origin) -> list[str]:
    """What was fitted on what, and how well, a sentence each."""
    files = _files((*origin.gemm, *origin.collectives, *origin.steps))
    return [f"Fitted by netplan calibrate on {origin.date} to {files}."] + [
        _sentence(fitted) for fitted in fits.all
    ]


def _sentence(fitted: Fitted) -> str:
    """How well one fit does, and what its rows leave open."""
    errors = [fitted.error(times) for times in (fitted.before_s, fitted.after_s, fitted.left_out_s)]
    before, after, left_out = (f"{100 * error:.1f} %" for error in errors)
    text = (
        f"{fitted.title}, {len(fitted.labels)} rows: mean error {before} before, {after} fitted,"
        f" {left_out} left out."
    )
    open_ = [
        name for name, little in zip(fitted.names, fitted.fit.undecided, strict=True) if little
    ]
    return text + (f" The rows say little about {', '.join(open_)}." if open_ else "")


def _files(paths: Sequence[Path]) -> str:
    """Names of files with the beginnings of their SHA-256; of a pipe nothing is left to sum up."""
    sums = (
        f" sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}" if path.is_file() else ""
        for path in paths
    )
    return ", ".join(f"{path.name}{text}" for path, text in zip(paths, sums, strict=True))


def _rounded(fitted: Fitted) -> Told:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in fitted.values.items()}


def _error(fitted: Fitted) -> float:
    """Mean error of rows left out, rounded up to a thousandth, below 1 [1]."""
    return min(LARGEST_ERROR, max(1, ceil(1000 * fitted.error(fitted.left_out_s))) / 1000)


class _Dumper(yaml.SafeDumper):
    """Writes numbers as the catalogs have them, 989.4e12 and 2.9e-6."""

    yaml_implicit_resolvers = CoreLoader.yaml_implicit_resolvers


def _number(dumper: _Dumper, value: float) -> yaml.ScalarNode:
    exponent = 3 * floor(log10(abs(value)) / 3) if value else 0
    plain = LEAST_PLAIN <= abs(value) < MOST_PLAIN or not value
    text = f"{value:.12g}" if plain else f"{value / 10.0**exponent:.12g}e{exponent}"
    kind = "int" if text.isdigit() else "float"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", text)


_Dumper.add_representer(float, _number)


def file_text(record: Record) -> str:
    """A record as its catalog file.

    Examples
    --------
    >>> from netplan.performance.stacks import STACKS
    >>> print(file_text(STACKS.load("nemo-2024")).splitlines()[5])
    dropout: false
    """
    data = to_builtins(record)
    nested = {key for key, value in data.items() if isinstance(value, dict | list | tuple)}
    return "".join(
        yaml.dump(
            {key: value},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=100,
            default_flow_style=None if key in nested - PROSE else False,
        )
        for key, value in data.items()
    )
