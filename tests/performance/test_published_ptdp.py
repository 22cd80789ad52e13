"""The PTD-P preset against Table 4 of arXiv:2307.12169 and ten searches; all to 1e-9 relative."""

from math import inf

import pytest

from netplan.levels import Level
from netplan.performance.plan import Plan
from netplan.performance.search import evaluate_plan, search_plans
from netplan.performance.setting import TrainedModel
from netplan.traffic.placement import Degrees, Placement
from netplan.workloads.models import MODELS
from tests.performance.cases import PTDP, REL, Row, read

SEARCHES = read("ptdp_search.csv")
TABLE_4 = read("table4.csv")


@pytest.mark.parametrize("row", SEARCHES, ids=lambda row: f"{row['model']}-{row['N']}-{row['K']}")
def test_search_counts_and_best_time(row: Row) -> None:
    model = MODELS.load(f"gpt-{row['model'].lower()}")
    gpus, domain = int(row["N"]), int(row["K"])
    limit = float(row["memory_limit_bytes"])
    case = TrainedModel(model, int(row["B"]), float(row["F_flops"]), limit, PTDP)
    latency = float(row["latency_s"])
    levels = (
        Level("switch", domain, float(row["C_F_Bps"]), step_latency_s=latency),
        Level("switch", gpus // domain, float(row["C_S_Bps"]), step_latency_s=latency),
    )
    found = search_plans(case, levels)
    assert found.feasible == int(row["n_configs"])
    if limit == inf:
        assert found.enumerated == found.feasible
    assert found.plans[0].iteration_time_s == pytest.approx(float(row["T_iter_s"]), rel=REL)


@pytest.mark.parametrize("row", TABLE_4, ids=lambda row: row["model"])
def test_table_4_part_by_part(row: Row) -> None:
    model = MODELS.load(f"gpt-{row['model'].lower()}")
    p, t, d, v, b, batch = (int(row[key]) for key in ("p", "t", "d", "v", "b", "B"))
    inside = tuple(int(row[key]) for key in ("th", "dh", "ph"))
    outside = tuple(int(row[key]) for key in ("tl", "dl", "pl"))
    latency = float(row["latency_s"])
    levels = (
        Level("switch", inside[0] * inside[1] * inside[2], float(row["C_F_Bps"]), 0, latency),
        Level("switch", outside[0] * outside[1] * outside[2], float(row["C_S_Bps"]), 0, latency),
    )
    plan = Plan(
        Placement(
            tuple(Degrees(tensor=tt, data=dd, pipeline=pp) for tt, dd, pp in (inside, outside))
        ),
        b,
        batch // (d * b),
        v,
    )
    assert (plan.tensor, plan.pipeline) == (t, p)
    case = TrainedModel(model, batch, float(row["F_flops"]), inf, PTDP)
    timed = evaluate_plan(case, levels, plan)
    parts = timed.breakdown_s
    assert plan.microbatches == int(row["m"])
    assert plan.gpus == int(row["N"])
    got = {
        "t_micro_s": parts["compute"] / plan.microbatches,
        "T_LS_comp_s": parts["compute"],
        "T_TP_s": parts["tensor_comm"],
        "T_PP_s": parts["pipeline_comm"],
        "T_sync_s": parts["data_comm"],
        "T_iter_s": timed.iteration_time_s,
    }
    assert got == pytest.approx({key: float(row[key]) for key in got}, rel=REL, abs=0)
    bubble = float(row["T_bubble_comp_s"]) + float(row["T_bubble_comm_s"])
    assert parts["bubble"] == pytest.approx(bubble, rel=REL, abs=0)
    assert parts["memory"] == 0
    assert round(timed.iteration_time_s, 2) == pytest.approx(float(row["printed_T_s"]), abs=0.005)
    # The paper's HFU: 72 B l s h^2 (1 + 2s/(9h) + V/(12hl)) over what the GPUs could do.
    s, h, layers = model.sequence_length, model.hidden_size, model.layers
    factor = 1 + 2 * s / (9 * h) + model.vocabulary / (12 * h * layers)
    flops = 72 * batch * layers * s * h * h * factor
    hfu = flops / (plan.gpus * case.flops_per_s * timed.iteration_time_s)
    assert hfu == pytest.approx(float(row["hfu"]), rel=REL)
    assert timed.hfu == pytest.approx(hfu, rel=1e-9)
