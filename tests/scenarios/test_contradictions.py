"""What a user asks for wins over what a scenario says; what two of his inputs say is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.errors import InputError
from netplan.questions.compare import Compare
from netplan.questions.loads import Loads
from netplan.questions.simulate import Simulate
from netplan.scenarios.parts import Cluster, Serving, Training
from netplan.scenarios.scenario import Scenario

SMALL: dict[str, Any] = {"gpus": 64, "radix": 16, "hb_size": 8}
RUN = Training(model="gpt-22b", batch=64, iteration_model="4d")


def mine(workload: Training | Serving = RUN, **cluster: Any) -> Scenario:  # noqa: ANN401
    return Scenario(name="mine", cluster=Cluster(**(SMALL | cluster)), workload=workload)


def test_ports_and_models_of_switches() -> None:
    assert Compare.make(mine(switch="qm9700", radix=None), radix=32).cluster.switch is None
    assert Compare.make(mine(radix=32), switch="qm9700").cluster.radix == 64
    assert Compare.make(mine(radix=64), nic_gbps=800).cluster.radix == 32


def test_a_fabric_that_is_asked_for_is_not_the_graph_of_the_scenario() -> None:
    graph = mine(graph="mine.graphml")
    assert Loads.make(graph).cluster.graph == "mine.graphml"
    for given in ({"fabric": "rail-only"}, {"gpus": 128}, {"radix": 32}, {"ports": "full"}):
        assert Loads.make(graph, **given).cluster.graph is None
    with pytest.raises(InputError, match="--fabric rail-only means nothing for --graph"):
        netplan.draw(mine(), graph="mine.graphml", fabric="rail-only")


def test_a_fabric_without_several_ports_has_one() -> None:
    full = mine(ports="full", fabric="torus-3d")
    assert Loads.make(full).cluster.ports == "full"
    assert Loads.make(full, fabric="rail-only").cluster.ports == "shared"
    with pytest.raises(InputError, match="--ports full means nothing for rail-only"):
        netplan.loads(mine(), ports="full", fabric="rail-only")


def test_racks_stand_where_they_are_asked_for() -> None:
    hall = mine(hall="example-hall")
    asked: dict[str, Any] = {"years": 5, "timing": False, "fabrics": "rail-only"}
    sized = netplan.faults(hall, gpus_per_rack=16, **asked)
    assert sized.inputs["gpus_per_rack"] == 16
    assert all(single.kind != "row" for single in sized.fabrics[0].singles)
    racks = mine(gpus_per_rack=16, switches_per_rack=8)
    inputs = netplan.faults(racks, floor_plan="example-hall", **asked).inputs
    assert inputs["gpus_per_rack"] is inputs["switches_per_rack"] is None
    with pytest.raises(InputError, match="both say where racks stand: give one"):
        netplan.faults(mine(), floor_plan="example-hall", gpus_per_rack=16)


def test_what_faults_has_no_use_for_is_left_alone() -> None:
    spare = mine(spare_gpus=2, switches_per_rack=8)
    asked: dict[str, Any] = {"years": 5, "timing": False, "fabrics": "rail-only"}
    assert netplan.faults(spare, **asked).fabrics
    with pytest.raises(InputError, match="--spare-gpus without --policy reconfigure"):
        netplan.faults(mine(), spare_gpus=2, **asked)
    with pytest.raises(InputError, match="--switches-per-rack without --gpus-per-rack"):
        netplan.faults(mine(), switches_per_rack=8, **asked)


def test_iteration_models_time_what_they_know() -> None:
    calibrated = Training(
        model="llama-3-8b",
        batch=64,
        precision="fp8",
        stack="nemo-2024",
        recompute="half",
        schedule="zb-1p",
        tensor_overlap=False,
    )
    asked = mine(calibrated, accelerator="h100-80gb", network_kind="roce")
    other = Compare.make(asked, iteration_model="4d")
    known = other.training
    assert (known.precision, known.stack, known.recompute, known.schedule) == (None,) * 4
    assert known.tensor_overlap
    assert other.cluster.network_kind is None
    assert Compare.make(asked, iteration_model="calibrated").training.precision == "fp8"
    assert netplan.search(asked, iteration_model="4d").found.plans
    with pytest.raises(InputError, match="4d has no times for --precision fp8"):
        netplan.search(asked, iteration_model="4d", precision="fp8")


def test_a_mode_brings_its_iteration_model() -> None:
    calibrated = mine(Training(model="gpt-22b", batch=64))
    found = netplan.search(calibrated, mode="published-code").inputs
    assert (found["mode"], found["iteration_model"]) == ("published-code", "4d")
    assert Simulate.make(calibrated, mode="published-code").training.iteration_model == "palm"
    slips = mine(Training(model="gpt-22b", batch=64, iteration_model="4d", mode="published-code"))
    assert Compare.make(slips, iteration_model="ptd-p").training.mode == "corrected"
    with pytest.raises(InputError, match="--mode published-code repeats slips"):
        netplan.search(calibrated, mode="published-code", iteration_model="calibrated")


def test_requests_are_in_flight_as_they_are_asked_for() -> None:
    served = mine(Serving(model="llama-3.1-8b", concurrency=64), accelerator="h200")
    inputs = netplan.serving(served, batch=4).inputs
    assert (inputs["batch"], inputs["concurrency"]) == (4, None)
    with pytest.raises(InputError, match="--concurrency and --batch both say"):
        netplan.serving(served, batch=4, concurrency=64)


@pytest.mark.parametrize(
    ("cluster", "ask", "given", "message"),
    [
        ({"ocs": "palomar"}, netplan.cost, {"ocs": "palomar"}, "joins cubes of a torus"),
        ({"ocs": "palomar"}, netplan.offers, {"ocs": "palomar"}, "joins cubes of a torus"),
        (
            {"networks": ("accelerators",)},
            netplan.procurement,
            {"networks": ("accelerators",)},
            "a report recommends a network",
        ),
    ],
)
def test_parts_of_a_scenario_that_do_not_fit_are_left_out(
    cluster: dict[str, Any], ask: Callable[..., Any], given: dict[str, Any], message: str
) -> None:
    assert ask(scenario=mine(**cluster), fabrics=("rail-only",)).to_dict()
    with pytest.raises(InputError, match=message):
        ask(scenario=mine(), fabrics=("rail-only",), **given)


def test_tables_without_a_hall_take_none_from_a_scenario(tmp_path: Path) -> None:
    hall = mine(hall="example-hall", networks=("storage", "accelerators"), fabric="rail-only")
    assert netplan.cables(hall, to="ibnetdiscover").csv()
    assert netplan.cables(hall, to="ufm-hca").csv().startswith("port,hca-name")
    with pytest.raises(InputError, match="has no racks or cages: leave out --hall"):
        netplan.cables(mine(), to="ibnetdiscover", floor_plan="example-hall")
    with pytest.raises(InputError, match="is of one network: leave --with out"):
        netplan.cables(mine(), to="ufm-hca", networks=("storage",))
    assert not list(tmp_path.iterdir())
