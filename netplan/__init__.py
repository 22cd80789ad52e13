"""netplan plans the networks of AI clusters: what to buy, what it costs, how fast work runs on it.

Nouns say what is planned: a ``Scenario`` is a ``Cluster``, what runs on it (``Training`` or
``Serving``) and the ``Books`` that it is counted with; a ``Fabric`` of it has a ``FabricGraph`` and
a ``Bill``. Verbs ask, one function a question. All are loaded on first use, so that importing the
package costs nothing.

Examples
--------
>>> import netplan
>>> scenario = netplan.Scenario.load("hgx-b200").replace(gpus=16384)
>>> scenario.fabric("rail-only").bill()
<Bill of rail-only: 107.3 M USD (76.6 to 207.9), 17 lines>
>>> netplan.compare(scenario).verdict.fabric
'rail-only'
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from netplan.version import __version__

_HOMES = {
    "Bill": "netplan.costing.fabric_bill",
    "Books": "netplan.scenarios.parts",
    "Cluster": "netplan.scenarios.parts",
    "Fabric": "netplan.scenarios.planned_fabric",
    "FabricGraph": "netplan.topologies.graph",
    "Plan": "netplan.performance.plan",
    "Scenario": "netplan.scenarios.scenario",
    "Serving": "netplan.scenarios.parts",
    "Study": "netplan.studies.study",
    "Training": "netplan.scenarios.parts",
    "audit": "netplan.questions.audit",
    "cables": "netplan.questions.cables",
    "calibrate": "netplan.questions.calibrate",
    "collective": "netplan.questions.collective",
    "compare": "netplan.questions.compare",
    "congestion": "netplan.questions.congestion",
    "cost": "netplan.questions.cost",
    "diff": "netplan.questions.diff",
    "doctor": "netplan.cli.doctor",
    "draw": "netplan.questions.draw",
    "export": "netplan.questions.export",
    "faults": "netplan.questions.faults",
    "grow": "netplan.questions.grow",
    "jobs": "netplan.questions.jobs",
    "loads": "netplan.questions.loads",
    "map": "netplan.questions.map",
    "offers": "netplan.procurement.offers",
    "optimize": "netplan.questions.optimize",
    "procurement": "netplan.procurement.report",
    "search": "netplan.questions.search",
    "serving": "netplan.questions.serving",
    "simulate": "netplan.questions.simulate",
    "sites": "netplan.questions.sites",
    "study": "netplan.studies.sessions",
    "traffic": "netplan.questions.traffic",
    "training_traffic": "netplan.questions.traffic",
    "verify": "netplan.published.verify",
}

__all__ = [
    "Bill",
    "Books",
    "Cluster",
    "Fabric",
    "FabricGraph",
    "Plan",
    "Scenario",
    "Serving",
    "Study",
    "Training",
    "__version__",
    "audit",
    "cables",
    "calibrate",
    "collective",
    "compare",
    "congestion",
    "cost",
    "diff",
    "doctor",
    "draw",
    "export",
    "faults",
    "grow",
    "jobs",
    "loads",
    "map",
    "offers",
    "optimize",
    "procurement",
    "search",
    "serving",
    "simulate",
    "sites",
    "study",
    "traffic",
    "training_traffic",
    "verify",
]

if TYPE_CHECKING:
    from netplan.cli.doctor import doctor
    from netplan.costing.fabric_bill import Bill
    from netplan.performance.plan import Plan
    from netplan.procurement.offers import offers
    from netplan.procurement.report import procurement
    from netplan.published.verify import verify
    from netplan.questions.audit import audit
    from netplan.questions.cables import cables
    from netplan.questions.calibrate import calibrate
    from netplan.questions.collective import collective
    from netplan.questions.compare import compare
    from netplan.questions.congestion import congestion
    from netplan.questions.cost import cost
    from netplan.questions.diff import diff
    from netplan.questions.draw import draw
    from netplan.questions.export import export
    from netplan.questions.faults import faults
    from netplan.questions.grow import grow
    from netplan.questions.jobs import jobs
    from netplan.questions.loads import loads
    from netplan.questions.map import map  # noqa: A004 - the command's name
    from netplan.questions.optimize import optimize
    from netplan.questions.search import search
    from netplan.questions.serving import serving
    from netplan.questions.simulate import simulate
    from netplan.questions.sites import sites
    from netplan.questions.traffic import traffic, training_traffic
    from netplan.scenarios.parts import Books, Cluster, Serving, Training
    from netplan.scenarios.planned_fabric import Fabric
    from netplan.scenarios.scenario import Scenario
    from netplan.studies.sessions import study
    from netplan.studies.study import Study
    from netplan.topologies.graph import FabricGraph


class _Package(ModuleType):
    """A question that has the name of a room stays the question when the room is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        """Keep rooms from taking the names of questions."""
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)


def __getattr__(name: str) -> object:
    """Load a public name from its room."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'netplan' has no attribute {name!r}")
