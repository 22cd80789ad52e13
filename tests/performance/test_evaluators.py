from math import inf

import pytest

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.compute import LayerTable
from netplan.performance.evaluation import Evaluator, evaluator_of
from netplan.performance.iteration import IterationTerms
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.search import search_plans
from netplan.performance.setting import Setting, TrainedModel
from netplan.performance.space import PlanSpace
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

ALONE = (Level("switch", 1, 450e9),)


def iteration_s(evaluator: str) -> float:
    model = replace(ITERATION_MODELS.load("4d"), evaluator=evaluator)
    training = TrainedModel.make(
        ACCELERATORS.load("h100-80gb"), MODELS.load("llama-3-8b"), model, batch=4
    )
    return search_plans(replace(training, memory_bytes=inf), ALONE).time_s


def test_a_package_adds_an_evaluator_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plug:
        """One whose layers take three times as long."""

        def load(self) -> Evaluator:
            def terms(
                setting: Setting,
                network: CollectiveNetwork,
                space: PlanSpace,
                table: LayerTable,
                update_s: Floats | None,
            ) -> IterationTerms:
                slow = replace(table, forward=table.forward * 3, backward=table.backward * 3)
                return IterationTerms.of(setting, network, space, slow, update_s)

            return terms

    monkeypatch.setattr("netplan.performance.evaluation.added", lambda _: {"slow": Plug()})
    evaluator_of.cache_clear()
    # One GPU: layers alone, nothing is sent and nobody waits.
    assert iteration_s("slow") == pytest.approx(3 * iteration_s("layers"), rel=1e-12)
    assert iteration_s("layers") == iteration_s("")
    with pytest.raises(InputError, match="unknown evaluator of an iteration model 'fast'"):
        iteration_s("fast")
    evaluator_of.cache_clear()
