"""What a step of post-training takes at least: what ``netplan search`` asks about such a job."""

from netplan.answers.post_training_answer import PostTrainingAnswer
from netplan.setup.money.step_cost import step_price
from netplan.setup.post_training_step import post_train
from netplan.setup.question import AnyQuestion
from netplan.setup.schedules_beside import schedules_beside

OF_PLANS = {"execution", "instances", "collective_algorithm", "explain", "top", "published"}
"""What a search for plans is asked that a step has no plan list for."""


def answer_step(asked: AnyQuestion) -> PostTrainingAnswer:
    """The step on the fabric of the scenario: both pools, by the best split where none is given.

    Parameters
    ----------
    asked
        The question about it.

    Raises
    ------
    InputError
        If inputs contradict each other.
    InfeasibleError
        If a pool has no plan that fits; it is named.
    """
    asked.reject_inputs(OF_PLANS, "--workload post-training")
    reader = asked.reader()
    trained = post_train(asked, reader, asked.cluster.fabric)
    inputs = asked.inputs(hb_size=trained.domain, fixed=asked.training.fixed, set=reader.replaced())
    price = step_price(asked, reader, trained)
    return PostTrainingAnswer(inputs, trained, price, schedules_beside(trained))
