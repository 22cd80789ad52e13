"""Traffic and loads for people: tables, a heat map in blocks, the hottest links."""

from collections.abc import Sequence
from textwrap import fill

from netplan.questions.loads import LoadsAnswer
from netplan.questions.matrix_loads import MatrixLoads
from netplan.questions.run import Workload
from netplan.questions.traffic import TrafficAnswer
from netplan.reports.text import Cell, number, percent, plain_table
from netplan.traffic.loads import HotLink
from netplan.units import si

SHADES = " ░▒▓█"


def traffic_text(answer: TrafficAnswer, width: int) -> str:
    """Shares of every kind, then the heat map, as plain text of at most ``width`` columns."""
    rows: list[dict[str, Cell]] = [
        {
            "kind": share.kind,
            "bytes": si(share.total_bytes, "B"),
            "of all bytes": f"{100 * share.bytes_share:.2f} %",
            "pairs": number(share.pairs),
            "of all pairs": f"{100 * share.pairs_share:.4f} %",
            "bytes a pair": si(share.pair_bytes, "B"),
        }
        for share in answer.shares
    ]
    right = ("bytes", "of all bytes", "pairs", "of all pairs", "bytes a pair")
    facts = fill(
        f"{si(answer.matrix.total_bytes, 'B')} an iteration;"
        f" {100 * answer.hb_share:.2f} % stay inside HB domains;"
        f" {100 * answer.idle_pairs_share:.2f} % of all pairs of GPUs exchange nothing.",
        width,
    )
    parts = [
        _heading(answer.workload, "Traffic"),
        plain_table(rows, width, right=right),
        facts + "\n",
    ]
    return "\n".join([*parts, _heat_text(answer.heat_bytes, answer.matrix.gpus)])


def loads_text(answer: LoadsAnswer | MatrixLoads, width: int) -> str:
    """Loads by group of links, the hottest links, and every collective beside its bound."""
    groups: list[dict[str, Cell]] = [
        {
            "links": group.group,
            "directions": number(group.directions),
            "unused": number(group.unused),
            "bytes": si(group.total_bytes, "B"),
            "busiest": si(group.busiest_s, "s"),
            "utilisation": percent(group.utilisation),
        }
        for group in answer.groups
    ]
    right = ("directions", "unused", "bytes", "busiest", "utilisation")
    table = plain_table(groups, width, right=right)
    parts = [table, _facts(answer, width), _hottest(answer.hottest, width)]
    if isinstance(answer, MatrixLoads):
        return "\n".join([_matrix_heading(answer), *parts, *_bounds(answer, width)])
    notes = "\n".join(fill(note, width) for note in answer.notes)
    return "\n".join(
        [_heading(answer.workload, "Loads"), *parts, _collectives(answer, width), notes + "\n"]
    )


def _facts(answer: LoadsAnswer | MatrixLoads, width: int) -> str:
    text = (
        f"The busiest link works for {si(answer.link_loads.busiest_s, 's')};"
        f" {number(len(answer.link_loads.unused_links))} of {number(answer.graph.link_count)}"
        " links carry nothing."
    )
    return fill(text, width) + "\n"


def _matrix_heading(answer: MatrixLoads) -> str:
    where = answer.inputs.get("graph") or f"fabric {answer.inputs['fabric']}"
    return (
        f"Loads of {answer.inputs['matrix']}, {si(answer.matrix.total_bytes, 'B')}, on {where}\n"
        f"{number(answer.graph.gpus)} GPUs in HB domains of {number(answer.graph.hb_size)};"
        f" routing {answer.inputs['routing']}\n"
    )


def _heading(workload: Workload, what: str) -> str:
    inputs, plan = workload.inputs, workload.timed.plan
    given = " as given" if inputs["fixed"] else ", the best of all"
    return (
        f"{what} of {inputs['model']}, batch {inputs['batch']:,}, on {inputs['gpus']:,}"
        f" {inputs['accelerator']}\n"
        f"HB domains of {inputs['hb_size']:,}, fabric {inputs['fabric']};"
        f" {inputs['algorithm']} collectives\n"
        f"plan{given}: TP {plan.tensor}, PP {plan.pipeline}, DP {plan.data},"
        f" {plan.microbatches} x {plan.microbatch} microbatches, {plan.interleave} stages a GPU\n"
    )


def _bounds(answer: MatrixLoads, width: int) -> list[str]:
    """Least times of collectives over all GPUs, where they were asked for."""
    rows: list[dict[str, Cell]] = [
        {"collective of 1 GB": name, "no less than": si(seconds, "s", 4)}
        for name, seconds in answer.bounds_s.items()
    ]
    return [plain_table(rows, width, right=("no less than",))] if rows else []


def _hottest(hottest: Sequence[HotLink], width: int) -> str:
    rows: list[dict[str, Cell]] = [
        {
            "hottest": f"{link.sender} -> {link.receiver}",
            "links": link.group,
            "bytes": si(link.load_bytes, "B"),
            "time": si(link.time_s, "s"),
        }
        for link in hottest
    ]
    return plain_table(rows, width, right=("bytes", "time")) if rows else ""


def _collectives(answer: LoadsAnswer, width: int) -> str:
    rows: list[dict[str, Cell]] = [
        {
            "collective": f"{one.kind} {one.collective}",
            "GPUs": number(one.members),
            "message": si(one.data_bytes, "B"),
            "runs": number(one.times),
            "model": si(one.analytic_s, "s"),
            "by link": si(one.busiest_s, "s"),
            "bound": si(one.bound_s, "s"),
            "ratio": f"{one.ratio:.2f}",
        }
        for one in answer.collectives
    ]
    right = tuple(rows[0])[1:] if rows else ()
    if not rows:
        return "No collective crosses GPUs.\n"
    heading = "Time of one run: by the model, by its busiest link, and no less than the bound\n"
    return heading + plain_table(rows, width, right=right)


def _heat_text(cells: Sequence[Sequence[float]], gpus: int) -> str:
    """Blocks of GPUs against blocks of GPUs, darker for more bytes (logarithmic)."""
    largest = max((cell for row in cells for cell in row), default=0.0)
    lines = ["".join(_shade(cell, largest) * 2 for cell in row).rstrip() for row in cells]
    size = -(-gpus // len(cells))
    return (
        f"Heat map: rows send, {number(size)} GPUs a block, a shade is a factor of 100.\n"
        + "\n".join(lines)
        + "\n"
    )


def _shade(cell: float, largest: float) -> str:
    """Darkest for the largest cell, one shade lighter for every factor of 100 below it."""
    for step, shade in enumerate(reversed(SHADES[1:])):
        if cell > 0 and cell * 100.0 ** (step + 1) > largest:
            return shade
    return SHADES[1] if cell > 0 else SHADES[0]
