"""Plans for people: a table of the best, and a picture of where the time and the memory go."""

from collections.abc import Mapping, Sequence

from netplan.performance.plan import PlanTime
from netplan.questions.search import SearchAnswer
from netplan.reports.text import Cell, percent, plain_table
from netplan.traffic.placement import Degrees
from netplan.units import si

BAR_WIDTH = 40
EIGHTHS = " ▏▎▍▌▋▊▉"
NAMES = {
    "compute": "computing",
    "memory": "waiting for memory",
    "tensor_comm": "tensor parallel",
    "data_comm": "data parallel",
    "pipeline_comm": "pipeline transfers",
    "expert_comm": "expert parallel",
    "bubble": "pipeline bubble",
}


def search_text(answer: SearchAnswer, width: int) -> str:
    """The answer as plain text of at most ``width`` columns."""
    best = answer.found.plans[0]
    parts = [
        _heading(answer),
        _plans(answer, width),
        f"Time of plan 1: {si(best.iteration_time_s, 's', 4)}\n" + _time_bars(best),
        _memory_heading(answer, best) + _memory_bars(answer, best),
    ]
    if answer.differences:
        parts.append(_explanation(answer, width))
    if answer.notes:
        parts.append(f"{answer.inputs['fabric']}: {' '.join(answer.notes)}\n")
    return "\n".join(parts)


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """A bar of this share of the width, in eighths of a column.

    Examples
    --------
    >>> bar(0.5, 8), bar(0.3, 8)
    ('████', '██▍')
    """
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def _heading(answer: SearchAnswer) -> str:
    inputs, found = answer.inputs, answer.found
    sentences = (
        f"Best plans of {inputs['model']}, batch {inputs['batch']:,}, on {inputs['gpus']:,}",
        f" {inputs['accelerator']}\n",
        f"HB domains of {inputs['hb_size']:,}, fabric {inputs['fabric']}; strategy",
        f" {inputs['strategy']}, model {inputs['iteration_model']} ({inputs['mode']})\n",
        f"{found.enumerated:,} plans, {found.feasible:,} fit the memory; all were evaluated",
        f" ({si(found.seconds, 's', 2)}).",
    )
    lines = ["".join(sentences)]
    lines += [f"with {key} = {value}" for key, value in inputs["set"].items()]
    return "\n".join(lines) + "\n"


def _plans(answer: SearchAnswer, width: int) -> str:
    rows = [_row(rank, plan) for rank, plan in enumerate(answer.found.plans, start=1)]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return plain_table([{key: row.get(key, "") for key in keys} for row in rows], width, right=keys)


def _row(rank: int, timed: PlanTime) -> dict[str, Cell]:
    plan = timed.plan
    row: dict[str, Cell] = {
        "plan": rank,
        "iteration": si(timed.iteration_time_s, "s", 4),
        "MFU": percent(timed.mfu),
        "memory": f"{timed.memory_bytes / 1e9:.0f} GB",
        "TPxPPxDP": _degrees(plan.placement.totals),
        "inside HB": _degrees(plan.placement.levels[0]),
        "microbatches": f"{plan.microbatches} x {plan.microbatch}",
    }
    if timed.strategy == "summa":
        row["panels"] = plan.panels
    if plan.interleave > 1:
        row["stages"] = plan.interleave
    return row


def _degrees(of: Degrees) -> str:
    """Degrees as TPxPPxDP; 2D tensor parallelism in brackets, experts after the data degree."""
    tensor = f"({of.tensor}x{of.context})" if of.context > 1 else f"{of.tensor}"
    expert = f"xEP{of.expert}" if of.expert > 1 else ""
    return f"{tensor}x{of.pipeline}x{of.data}{expert}"


def _time_bars(timed: PlanTime) -> str:
    total = timed.iteration_time_s
    return _bars({NAMES[key]: value for key, value in timed.breakdown_s.items()}, total, "s")


def _memory_heading(answer: SearchAnswer, timed: PlanTime) -> str:
    used, room = timed.memory_bytes, answer.memory_bytes
    return f"Memory of plan 1: {si(used, 'B')} of {si(room, 'B')} ({percent(used / room)})\n"


def _memory_bars(answer: SearchAnswer, timed: PlanTime) -> str:
    return _bars(timed.memory_parts_bytes, answer.memory_bytes, "B")


def _bars(parts: Mapping[str, float], total: float, unit: str) -> str:
    """One line a part: name, amount, share, bar."""
    lines = [
        f"  {name:<18} {si(amount, unit):>9} {percent(amount / total):>6}  {bar(amount / total)}"
        for name, amount in parts.items()
        if amount > 0
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _explanation(answer: SearchAnswer, width: int) -> str:
    """The terms that differ, largest difference first, and their sum."""
    kind = answer.inputs["explain"]
    names = ("published-code", "corrected") if kind == "modes" else _plan_names(kind.split(","))
    changed = [row for row in answer.differences if row.difference_s]
    changed.sort(key=lambda row: -abs(row.difference_s))
    rows: list[dict[str, Cell]] = [
        {
            "term": " ".join(filter(None, (row.operation, row.direction, NAMES[row.part]))),
            names[0]: si(row.first_s, "s"),
            names[1]: si(row.second_s, "s"),
            "difference": si(row.difference_s, "s"),
        }
        for row in changed
    ]
    if not rows:
        return f"No term differs between {names[0]} and {names[1]}.\n"
    sums = [sum(getattr(row, key) for row in answer.differences) for key in _SUMMED]
    rows.append(dict(zip(rows[0], ("sum", *(si(value, "s", 5) for value in sums)), strict=True)))
    table = plain_table(rows, width, right=list(rows[0])[1:])
    return f"From {names[0]} to {names[1]}, terms of an iteration\n{table}"


_SUMMED = ("first_s", "second_s", "difference_s")


def _plan_names(ranks: Sequence[str]) -> tuple[str, str]:
    first, second = (f"plan {int(rank)}" for rank in ranks)
    return first, second
