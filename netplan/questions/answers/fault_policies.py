"""The table of policies after a failed GPU: what each needs, and what the job gets of it."""

from collections.abc import Iterator, Sequence

from netplan.faults.years.recoveries import Policy
from netplan.reports.quantities import quantity
from netplan.reports.sections import Column, Table, column, columns

FORMS = ("interruptions_closed_form", "goodput_closed_form", "goodput_half_width")
LEGEND = (
    (
        "reconfigure: in every HB domain idle GPUs stand by, which optical circuit switches between"
        " GPUs and rails bring onto the rail of a failed one; go-on, wait: the domain is left out,"
        " or idle domains take over."
    ),
    (
        "HB pair, iteration: after one failed GPU. taken over: failures of GPUs and their cards"
        " that find an idle GPU. work: useful work of the years over that of all GPUs without"
        " failures; goodput: the same of the GPUs that the job has. Price: of circuit switches, of"
        " single-mode modules in place of copper, and of the idle GPUs' share of the network."
    ),
)


def policies_tables(
    fabrics: Sequence[tuple[str, Sequence[Policy]]], currency: str
) -> Iterator[Table[tuple[str, Policy]]]:
    """One row a fabric and policy, where any was asked for."""
    rows = [(name, one) for name, policies in fabrics for one in policies]
    if not rows:
        return
    shown: list[Column[tuple[str, Policy]]] = [
        column("fabric", "0"),
        *columns("policy", "idle_gpus", "circuit_switches", of="1"),
        *columns("circuit_ports", "circuit_ports_used", of="1", shown="never"),
        column("circuit_power_w", "1.circuit_power_w", shown="wide"),
        column("single_mode_modules", "1.single_mode_modules", shown="never"),
        column(quantity("price", title=currency), "1.price", mark=_in_part),
        column("price_complete", "1.price_complete", shown="never"),
        column("bandwidth_share", "1.bandwidth_share"),
        column("iteration_time_s", "1.iteration_time_s"),
        column("replaced_share", "1.replaced_share"),
        column("interruptions_per_year", "1.forecast.interruptions_per_year", title="stops"),
        column("goodput", "1.forecast.goodput"),
        *columns(*FORMS, "domains_down", of="1.forecast", shown="never"),
        column("work_share", "1.work_share"),
    ]
    yield Table("policies", shown, rows, "After a failed GPU, by policy", LEGEND)


def _in_part(row: tuple[str, Policy]) -> tuple[str, str]:
    """Mark of a price of hardware of which parts have none."""
    return ("", "") if row[1].price is None or row[1].price_complete else ("≥ ", "")
