"""Inputs of questions about the links of a fabric, or of somebody's graph with its own traffic."""

from dataclasses import dataclass
from pathlib import Path

from netplan.errors import InputError
from netplan.questions.question import AnswerT_co, Question, optional
from netplan.questions.setup.run_question import RunQuestion

OF_FABRICS = ("gpus", "fabric", "radix", "oversubscription", "ports")
"""Inputs that say which network is meant: a graph from a file has all of that."""


@dataclass(frozen=True, kw_only=True)
class NetworkQuestion(RunQuestion[AnswerT_co]):
    """Inputs of all questions that take a fabric or a graph, a run's traffic or a matrix."""

    gpus: int = optional(  # None with --graph, which has its own number
        "GPUs in the cluster.", "whole", unit="GPUs", low=8, high=4_194_304
    )
    seed: int = optional("Seed of all that is drawn.", "whole", default=0, high=2**64)
    matrix: str | Path | None = optional("This traffic (.npz, .csv), not a plan's.", "path")
    graph: str | Path | None = optional(
        "This graph (.graphml, .csv, .topo, .ibnetdiscover), not a fabric.", "path"
    )

    def check_network(self) -> None:
        """Refuse questions about no network, or about two.

        Raises
        ------
        InputError
            If neither GPUs nor a graph are given, or both.
        """
        if self.graph is not None:
            refuse_two_networks(self)
        elif not self.gpus:
            raise InputError("Missing option '--gpus'")


def refuse_two_networks(question: Question[AnswerT_co]) -> None:
    """Refuse inputs that ask for a fabric beside ``--graph``, which is one; InputError."""
    question.refuse(OF_FABRICS, "--graph, which has its own (--fabric FILE --gpus N takes a part)")
