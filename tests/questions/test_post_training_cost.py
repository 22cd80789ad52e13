"""What a step of post-training costs: worked by hand, of all GPUs held, by their own price."""

import pytest

from netplan.questions.compare import Compare, compare
from netplan.questions.money.step_cost import StepPrice, StepTerms, held, step_price
from netplan.questions.setup.post_training_step import PostTrained, post_train
from netplan.scenarios.reading import CatalogReader

SHIPPED = "grpo-70b-h100"
FABRIC = "rail-optimized"
HOUR_S, YEAR_S = 3600.0, 365 * 24 * 3600.0


def priced(**given: object) -> tuple[PostTrained, StepPrice]:
    """The step of the shipped scenario with some inputs, and its price on one fabric."""
    asked = Compare.on(SHIPPED, **given)
    reader = CatalogReader(asked.catalog, asked.overrides)
    trained = post_train(asked, reader, FABRIC)
    return trained, step_price(asked, reader, trained)


def bill_of(**given: object) -> tuple[float, float]:
    """Price and power of the network, from the plain bill of a cluster without a workload."""
    (row,) = compare(SHIPPED, fabrics=(FABRIC,), timing=False, **given).rows
    assert row.cost is not None
    assert row.power_w is not None
    return row.cost.base, row.power_w


def test_price_of_a_step_by_hand() -> None:
    trained, price = priced()
    capital, power_w = bill_of()
    # Book 2026: 6 years at 8.5 %, 0.0869 USD/kWh, a PUE of 1.42; an H100 costs 2.995 USD an hour.
    annuity = capital * 0.085 / (1 - 1.085**-6)
    energy = power_w / 1000 * 8760 * 1.42 * 0.0869
    step_s = trained.step.seconds
    network = (annuity + energy) * step_s / YEAR_S
    hours = 64 * step_s / HOUR_S * 2.995
    assert price.step is not None
    assert price.step.network.base == pytest.approx(network, rel=1e-9)
    assert price.step.gpus.base == pytest.approx(hours, rel=1e-9)
    assert price.usd_per_step == pytest.approx(network + hours, rel=1e-9)
    assert price.usd_per_run == pytest.approx(1000 * (network + hours), rel=1e-9)
    assert price.network_share == pytest.approx(network / (network + hours), rel=1e-9)
    assert price.gpu_hours_per_run == pytest.approx(1000 * 64 * step_s / HOUR_S, rel=1e-9)


def test_run_has_as_many_steps_as_are_asked_for() -> None:
    _, price = priced(steps=250)
    assert price.usd_per_run == pytest.approx(250 * (price.usd_per_step or 0.0), rel=1e-12)
    assert price.run is not None
    assert price.step is not None
    assert price.run.total.high == pytest.approx(250 * price.step.total.high, rel=1e-12)


def test_idle_gpus_are_paid_for() -> None:
    # 16 GPUs that score nothing are held by the job, and cost their hours as the others do.
    trained, price = priced(gpus=80, score_gpus=16, score=("old", "reference"))
    assert sum(pool.gpus for pool in trained.pools if pool.role != "score") == 64
    assert price.step is not None
    assert price.step.gpus.base == pytest.approx(80 * 2.995 * trained.step.seconds / HOUR_S)


def test_pools_cost_the_hours_of_their_own_accelerators() -> None:
    trained, price = priced(rollout_accelerator="h200", rollout_gpus=24)
    assert held(trained) == {"h100-80gb": 40, "h200": 24}
    assert price.step is not None
    seconds = trained.step.seconds
    h200 = (price.step.gpus.base / seconds * HOUR_S - 40 * 2.995) / 24
    alone = priced(accelerator="h200")[1].step
    assert alone is not None
    assert h200 == pytest.approx(alone.gpu_hour, rel=1e-9)
    assert h200 > 2.995


def test_price_of_a_gpu_hour_that_is_given_is_that_of_all() -> None:
    trained, price = priced(rollout_accelerator="h200", gpu_hour=1.5)
    assert price.step is not None
    assert price.step.gpus.base == pytest.approx(64 * 1.5 * trained.step.seconds / HOUR_S)


def test_no_price_is_guessed() -> None:
    asked = Compare.on(SHIPPED)
    trained = post_train(asked, CatalogReader(asked.catalog, asked.overrides), FABRIC)
    terms = StepTerms(currency="USD", hours={"h100-80gb": None}, usd=1.0)
    price = StepPrice.of(trained, None, terms)
    assert price.usd_per_step is None
    assert "no price of a GPU hour of h100-80gb" in price.words
    assert "--gpu-hour" in price.words
