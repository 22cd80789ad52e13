"""Published tables and designs against netplan: what passes, fails, is known to differ."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from netplan.published.checks import Check
from netplan.published.designs import design_checks
from netplan.published.foundation import foundation_checks
from netplan.published.network import network_checks
from netplan.published.rail_only import rail_only_checks
from netplan.published.rail_only_faults import fault_checks
from netplan.published.rail_only_figure_checks import rail_only_figure_checks
from netplan.published.reliability import reliability_checks
from netplan.reports.text import Cell
from netplan.version import __version__

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer of :func:`verify`."""

    checks: tuple[Check, ...]

    def count(self, verdict: str) -> int:
        """Checks with this verdict [1]."""
        return sum(check.verdict == verdict for check in self.checks)

    @property
    def failed(self) -> bool:
        """Whether any check fails; a number known not to reproduce is no failure."""
        return self.count("fail") > 0

    @property
    def summary(self) -> str:
        """One line for people."""
        return (
            f"{self.count('pass')} pass, {self.count('fail')} fail,"
            f" {self.count('known')} known not to reproduce."
        )

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan verify --format json``."""
        return {
            "netplan_version": __version__,
            "passed": self.count("pass"),
            "failed": self.count("fail"),
            "known": self.count("known"),
            "checks": [asdict(check) for check in self.checks],
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a check."""
        return [asdict(check) for check in self.checks]

    def to_frame(self) -> "pd.DataFrame":
        """One row a check."""
        import pandas as pd

        return pd.DataFrame(self.to_rows())

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(escape=True, index=False))


def verify(*, only: str | None = None) -> Verification:
    """Run the checks of all published tables, or those whose name or source holds ``only``.

    Examples
    --------
    >>> verify(only="Table 2").summary
    '30 pass, 0 fail, 0 known not to reproduce.'
    """
    checks = (
        *rail_only_checks(),
        *rail_only_figure_checks(),
        *foundation_checks(),
        *network_checks(),
        *design_checks(),
        *reliability_checks(),
        *fault_checks(),
    )
    if only is not None:
        key = only.lower()
        checks = tuple(c for c in checks if key in c.name.lower() or key in c.source.lower())
    return Verification(checks)
