"""netplan plans the networks of AI training clusters.

The public names are loaded on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "audit": "netplan.reports.audit",
    "cables": "netplan.reports.cables",
    "compare": "netplan.reports.compare",
    "cost": "netplan.reports.cost",
    "faults": "netplan.reports.faults.faults",
    "loads": "netplan.reports.loads",
    "optimize": "netplan.reports.optimization.optimize",
    "procurement": "netplan.reports.procurement",
    "search": "netplan.reports.search",
    "study": "netplan.reports.studies.sessions",
    "training_traffic": "netplan.reports.traffic",
    "verify": "netplan.reports.verify",
}

__all__ = [
    "__version__",
    "audit",
    "cables",
    "compare",
    "cost",
    "faults",
    "loads",
    "optimize",
    "procurement",
    "search",
    "study",
    "training_traffic",
    "verify",
]

if TYPE_CHECKING:
    from netplan.reports.audit import audit
    from netplan.reports.cables import cables
    from netplan.reports.compare import compare
    from netplan.reports.cost import cost
    from netplan.reports.faults.faults import faults
    from netplan.reports.loads import loads
    from netplan.reports.optimization.optimize import optimize
    from netplan.reports.procurement import procurement
    from netplan.reports.search import search
    from netplan.reports.studies.sessions import study
    from netplan.reports.traffic import training_traffic
    from netplan.reports.verify import verify


def __getattr__(name: str) -> object:
    """Load a public name from its room."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'netplan' has no attribute {name!r}")
