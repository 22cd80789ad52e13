"""Questions about failures that several tests ask, and parts of their answers."""

from netplan.answers.faults_answer import FaultsAnswer
from netplan.answers.faults_rows import FabricFaults, ScenarioImpact
from netplan.faults.damage.impact import Impact
from netplan.questions.faults import faults

BOOKS = {"iteration_model": "ptd-p", "prices": "2026"}
SMALL = {"gpus": 1024, "radix": 64, "hb_size": 8, "model": "gpt-22b", "batch": 1024, "years": 50}
PAIR = ("rail-optimized", "rail-only")


def small(**question: object) -> FaultsAnswer:
    return faults("rail-only-paper", **(SMALL | BOOKS | {"fabrics": PAIR} | question))


def single(fabric: FabricFaults, kind: str) -> Impact:
    return next(one.impact for one in fabric.singles if one.kind == kind)


def scenario(fabric: FabricFaults) -> ScenarioImpact:
    assert isinstance(fabric.scenario, ScenarioImpact)
    return fabric.scenario
