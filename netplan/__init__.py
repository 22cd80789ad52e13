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

from netplan.version import __version__ as __version__

QUESTIONS = {
    "compare": "questions.compare:Compare",
    "diff": "questions.diff:Diff",
    "cost": "questions.cost:Cost",
    "search": "questions.search:Search",
    "serving": "questions.serving:ServingQuestion",
    "optimize": "questions.optimize:Optimize",
    "map": "questions.map:Map",
    "traffic": "questions.traffic:Traffic",
    "collective": "questions.collective:Collective",
    "draw": "questions.draw:Draw",
    "loads": "questions.loads:Loads",
    "congestion": "questions.congestion:Congestion",
    "jobs": "questions.jobs:Jobs",
    "simulate": "questions.simulate:Simulate",
    "faults": "questions.faults:Faults",
    "grow": "questions.grow:Grow",
    "sites": "questions.sites:SeveralSites",
    "cables": "questions.cables:Cables",
    "export": "questions.export:Export",
    "offers": "procurement.offers:Offers",
    "calibrate": "questions.calibrate:Calibrate",
    "audit": "questions.audit:AuditFile",
    "study_status": "studies.sessions:StatusOfStudy",
    "study_show": "studies.sessions:ShowStudy",
    "verify": "published.verify:Verify",
    "catalog_list": "questions.shelves:ListRecords",
    "catalog_check": "questions.shelves:CheckRecords",
    "doctor": "cli.doctor:Doctor",
    "procurement": "procurement.report:Report",
    "rail-only-figures": "published.rail_only_figures:RailOnlyFigures",
}
"""Module and class of each question, in the order of use: commands, tools, studies find it here."""
PARTS = ("study_status", "study_show", "catalog_list", "catalog_check", "rail-only-figures")
"""Those that are part of a command, or a suite, and no function of the package."""
_HOMES = {
    "Bill": "costing.fabric_bill",
    "Books": "scenarios.parts",
    "Cluster": "scenarios.parts",
    "Fabric": "scenarios.planned_fabric",
    "FabricGraph": "topologies.graph",
    "Plan": "performance.plan",
    "Scenario": "scenarios.scenario",
    "Serving": "scenarios.parts",
    "Study": "studies.study",
    "Training": "scenarios.parts",
    "study": "studies.sessions",
    "training_traffic": "questions.traffic",
    **{name: home.partition(":")[0] for name, home in QUESTIONS.items() if name not in PARTS},
}

__all__ = sorted(["__version__", *_HOMES])  # noqa: PLE0605 - names of a table

if TYPE_CHECKING:
    from netplan.cli.doctor import doctor as doctor
    from netplan.costing.fabric_bill import Bill as Bill
    from netplan.performance.plan import Plan as Plan
    from netplan.procurement.offers import offers as offers
    from netplan.procurement.report import procurement as procurement
    from netplan.published.verify import verify as verify
    from netplan.questions.audit import audit as audit
    from netplan.questions.cables import cables as cables
    from netplan.questions.calibrate import calibrate as calibrate
    from netplan.questions.collective import collective as collective
    from netplan.questions.compare import compare as compare
    from netplan.questions.congestion import congestion as congestion
    from netplan.questions.cost import cost as cost
    from netplan.questions.diff import diff as diff
    from netplan.questions.draw import draw as draw
    from netplan.questions.export import export as export
    from netplan.questions.faults import faults as faults
    from netplan.questions.grow import grow as grow
    from netplan.questions.jobs import jobs as jobs
    from netplan.questions.loads import loads as loads
    from netplan.questions.map import map as map  # noqa: A004 - the command's name
    from netplan.questions.optimize import optimize as optimize
    from netplan.questions.search import search as search
    from netplan.questions.serving import serving as serving
    from netplan.questions.simulate import simulate as simulate
    from netplan.questions.sites import sites as sites
    from netplan.questions.traffic import traffic as traffic
    from netplan.questions.traffic import training_traffic as training_traffic
    from netplan.scenarios.parts import Books as Books
    from netplan.scenarios.parts import Cluster as Cluster
    from netplan.scenarios.parts import Serving as Serving
    from netplan.scenarios.parts import Training as Training
    from netplan.scenarios.planned_fabric import Fabric as Fabric
    from netplan.scenarios.scenario import Scenario as Scenario
    from netplan.studies.sessions import study as study
    from netplan.studies.study import Study as Study
    from netplan.topologies.graph import FabricGraph as FabricGraph


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
        return getattr(import_module(f"netplan.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'netplan' has no attribute {name!r}")
