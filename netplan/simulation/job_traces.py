"""Traces of jobs: when each came, how many GPUs it asked for, how long it ran alone.

A trace is a CSV file with the columns ``id``, ``arrival`` [s], ``gpus``, ``duration`` [s, alone],
and as known ``comm``, the share of its time alone that is exposed communication outside the HB
domain, ``pattern``, ring or all-to-all, ``weight`` of its share of links, ``model`` and ``plan``.
Other columns mean nothing here.

Published traces are read as they are, by their header; times count from the first job.

==================  ==============================================================================
AcmeTrace           gpu_num, submit_time, duration (InternLM; Hu et al., NSDI 2024)
gpu-v2023           num_gpu, creation_time, scheduled_time, deletion_time (Alibaba); runs from
                    scheduled to deleted, and needs gpu_milli = 1000
spot-gpu v2026      gpu_request x worker_num, submit_time, duration (Alibaba)
Tiresias            num_gpu, submit_time, duration (Gu et al., NSDI 2019)
==================  ==============================================================================

Of these, rows that never ran, or ask for no whole GPU, are left out and counted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import Path
from typing import Self

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError, piece
from netplan.files import csv_rows, read_lines
from netplan.inputs.readers import digits
from netplan.records import replace

NEEDED = ("id", "arrival", "gpus", "duration")
"""Columns without which a job cannot run."""

_NumberedRow = tuple[int, Mapping[str, str]]
"""Line of a file, and its cells by column."""

_PlacedRow = tuple[str, Mapping[str, str]]
"""File and line of a row, and its cells by column."""

POD_TIMES = ("creation_time", "scheduled_time", "deletion_time")
PUBLISHED: tuple[tuple[str, ...], ...] = (
    ("num_gpu", *POD_TIMES),
    ("gpu_request", "worker_num", "submit_time", "duration"),
    ("gpu_num", "submit_time", "duration"),
    ("num_gpu", "submit_time", "duration"),
)
"""Columns by which published formats are known, the most telling first."""

NAMES = ("job_id", "name", "job_name", "id")
"""Columns that may name a job of a published format."""

WHOLE_MILLI = 1000
"""Thousandths of a GPU that are a whole one [1]."""

SHORTEST_S = 1e-9
"""Jobs that end within this time of each other end together: none is shorter [s]."""
LONGEST_S = 1e12
"""Jobs that arrive later, or take longer, than 30,000 years are mistakes [s]."""

MOST_GPUS = 10**9
"""Larger jobs are mistakes [1]."""


class JobTrace(Struct, frozen=True, eq=False):
    """Jobs in the order of their arrivals, of equal ones by their ids.

    Parameters
    ----------
    name
        Of the file, without what it ends in.
    ids
        As they stand there.
    arrival_s, duration_s
        From the begin of the trace; alone, shape (jobs,) [s].
    gpus
        That each asks for, shape (jobs,) [1].
    comm
        Share of its time alone that is exposed communication outside the HB domain; no number where
        the trace does not say, shape (jobs,) [1].
    all_to_all
        Whether it talks all to all; else in a ring, shape (jobs,).
    weight
        Of its share of links; all 1 if None, shape (jobs,) [1].
    model, plan
        What it runs and how, as the trace says; empty if it does not.
    dropped
        Rows that are no jobs of whole GPUs, by why they are left out.
    """

    name: str
    ids: tuple[str, ...]
    arrival_s: Floats
    duration_s: Floats
    gpus: Ints
    comm: Floats
    all_to_all: Bools
    weight: Floats | None = None
    model: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    dropped: Mapping[str, int] = {}

    @property
    def weights(self) -> Floats:
        """Weight of each job's share of links, shape (jobs,) [1]."""
        return np.ones(len(self.gpus)) if self.weight is None else self.weight

    def take(self, jobs: Ints | Bools) -> Self:
        """Some of the jobs, in their order.

        Parameters
        ----------
        jobs
            Their numbers, or which they are.

        Returns
        -------
        JobTrace
            Theirs alone.
        """
        chosen = np.arange(len(self.gpus))[jobs].tolist()
        names = {
            name: tuple(values[job] for job in chosen)
            for name in ("ids", "model", "plan")
            if (values := getattr(self, name))
        }
        columns = ("arrival_s", "duration_s", "gpus", "comm", "all_to_all")
        numbers = {name: getattr(self, name)[jobs] for name in columns}
        return replace(self, **names, **numbers, weight=self.weights[jobs])

    def later(self, factor: float) -> Self:
        """The same jobs with all arrivals at so many times their time.

        Parameters
        ----------
        factor
            0 or more [1].

        Returns
        -------
        JobTrace
            In the same order.
        """
        return replace(self, arrival_s=self.arrival_s * factor)


def read_trace(path: Path) -> JobTrace:
    """Read a trace of jobs.

    Parameters
    ----------
    path
        A CSV file.

    Returns
    -------
    JobTrace
        Its jobs, by arrival and id; ids that are all numbers are ordered as numbers.

    Raises
    ------
    InputError
        If it is no such table, holds no job or an id twice, or a cell is none of what it may be:
        file, line, column, what is allowed.
    """
    lines = read_lines(path)
    reader = csv_rows(path, lines, InputError)
    rows: list[_NumberedRow] = []
    header = [cell.strip() for cell in next(reader, (1, []))[1]]
    missing = [name for name in NEEDED if name not in header]
    known = next((names for names in PUBLISHED if {*names} <= {*header}), ())
    if missing and not known:
        raise InputError(f"{path}:1: a trace of jobs has a column {missing[0]!r}: give it")
    for line, cells in reader:
        if any(cells):
            row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
            rows.append((line, row))
    dropped: Mapping[str, int] = {}
    if missing and rows:
        rows, dropped = _published(path, rows, known)
    if not rows:
        left_out = ", ".join(f"{count:,} {why}" for why, count in dropped.items())
        but = f" but {left_out}" if left_out else ""
        raise InputError(f"{path}: no job in it{but}: give a line for each")
    ids = [_name(path, line, row) for line, row in rows]
    line_of: dict[str, int] = {}
    for (line, _), name in zip(rows, ids, strict=True):
        if name in line_of:
            raise InputError(
                f"{path}:{line}: job {piece(name)} stands on line {line_of[name]}, too"
            )
        line_of[name] = line
    places = [f"{path}:{line}" for line, _ in rows]
    table = [row for _, row in rows]
    arrival_s = [_number(job, "arrival", 0.0, LONGEST_S) for job in zip(places, table, strict=True)]
    numbers = [number for number in map(digits, ids) if number is not None]
    keys = numbers if len(numbers) == len(ids) else ids
    order = sorted(range(len(rows)), key=lambda job: (arrival_s[job], keys[job]))
    ordered = [(places[job], table[job]) for job in order]
    return JobTrace(
        name=path.stem,
        ids=tuple(ids[job] for job in order),
        arrival_s=np.array([arrival_s[job] for job in order]),
        duration_s=np.array([_number(job, "duration", SHORTEST_S, LONGEST_S) for job in ordered]),
        gpus=np.array([_gpus(*job) for job in ordered], np.int64),
        comm=np.array([_number(job, "comm", 0.0, 1.0, np.nan) for job in ordered]),
        all_to_all=np.array([_talks_to_all(*job) for job in ordered], bool),
        weight=np.array([_number(job, "weight", SHORTEST_S, inf, 1.0) for job in ordered]),
        model=tuple(row.get("model", "") for _, row in ordered),
        plan=tuple(row.get("plan", "") for _, row in ordered),
        dropped=dropped,
    )


def _published(
    path: Path, rows: Sequence[_NumberedRow], columns: tuple[str, ...]
) -> tuple[list[_NumberedRow], dict[str, int]]:
    """Rows of a published format as rows of a trace; how many are left out, by why."""
    dropped: Counter[str] = Counter()
    kept: list[tuple[int, dict[str, str], float]] = []
    for line, row in rows:
        place = f"{path}:{line}"
        workers = _amount(place, row, "worker_num") if "worker_num" in columns else 1.0
        gpus = _amount(place, row, columns[0]) * workers
        why = _no_job(place, row, gpus, columns)
        if not why:
            arrival_s = _clock_s(
                place, row, columns[1] if POD_TIMES[0] in columns else "submit_time"
            )
            run_s = (
                _clock_s(place, row, POD_TIMES[2]) - _clock_s(place, row, POD_TIMES[1])
                if POD_TIMES[0] in columns
                else _amount(place, row, "duration")
            )
            why = "" if run_s >= SHORTEST_S else "with no time to run"
        if why:
            dropped[why] += 1
            continue
        name = next((row[column] for column in NAMES if row.get(column)), str(line))
        known = {"id": name, "gpus": f"{gpus:g}", "duration": repr(run_s)}
        kept.append((line, {**row, **known}, arrival_s))
    first_s = min((arrival_s for _, _, arrival_s in kept), default=0.0)
    timed = [(line, {**row, "arrival": repr(time_s - first_s)}) for line, row, time_s in kept]
    return [*timed], dict(dropped)


def _no_job(place: str, row: Mapping[str, str], gpus: float, columns: tuple[str, ...]) -> str:
    """Why a row of a published format is no job of whole GPUs; empty if it is one."""
    if gpus == 0:
        return "without a GPU"
    if gpus % 1:
        return "of a part of a GPU"
    if POD_TIMES[0] not in columns:
        return ""
    if row.get("gpu_milli") and _amount(place, row, "gpu_milli") < WHOLE_MILLI:
        return "of a part of a GPU"
    return "" if row.get(POD_TIMES[1]) and row.get(POD_TIMES[2]) else "that never started"


def _amount(place: str, row: Mapping[str, str], column: str) -> float:
    """A number of 0 or more; an empty cell is 0."""
    return _number((place, row), column, 0.0, inf, 0.0)


def _clock_s(place: str, row: Mapping[str, str], column: str) -> float:
    """A time of a cell, in seconds or as a date [s]."""
    text = row.get(column, "")
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{place}: column {column} is {piece(text) or 'empty'}: give seconds, or a date as"
            " 2023-05-17 11:00:58"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _name(path: Path, line: int, row: Mapping[str, str]) -> str:
    name = row.get("id", "")
    if not name:
        raise InputError(f"{path}:{line}: column id is empty: give each job a name")
    return name


def _number(
    job: _PlacedRow, column: str, least: float, below: float, missing: float | None = None
) -> float:
    """A number of a cell, from ``least`` on and below a bound; ``missing`` of an empty one."""
    place, row = job
    text = row.get(column, "")
    if not text and missing is not None:
        return missing
    try:
        value = float(text)
    except ValueError:
        value = -inf
    if not (isfinite(value) and least <= value < below):
        allowed = f"{least:g} or more" + ("" if below == inf else f", below {below:g}")
        raise InputError(f"{place}: column {column} is {piece(text) or 'empty'}: give {allowed}")
    return value


def _gpus(place: str, row: Mapping[str, str]) -> int:
    value = _number((place, row), "gpus", 1.0, MOST_GPUS)
    if value != int(value):
        raise InputError(f"{place}: column gpus is {piece(row['gpus'])}: give a whole number")
    return int(value)


def _talks_to_all(place: str, row: Mapping[str, str]) -> bool:
    pattern = row.get("pattern") or "ring"
    if pattern not in ("ring", "all-to-all"):
        raise InputError(
            f"{place}: column pattern is {piece(pattern)}: give ring or all-to-all, or leave it"
        )
    return pattern == "all-to-all"
