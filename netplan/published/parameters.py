"""Checks of model files: parameters counted from their sizes, and as their publishers print them.

The total leaves out layers that predict further tokens. Of a token's parameters publishers count
the token embedding (Llama 4, Mixtral, Qwen3) or leave it out (gpt-oss, DeepSeek-V3), which few of
them say: the nearer count stands beside the printed one.
"""

from collections.abc import Iterator

from netplan.published.checks import Check, Measured, published, stated
from netplan.workloads.models import MODELS
from netplan.workloads.parameters import parameter_count

TABLE = "model-parameters"
ACTIVE = "parameters of a token"


def parameter_checks() -> Iterator[Check]:
    """Total and active parameters of published models, in the order of their table."""
    yield from stated(_counted(), TABLE)


def _counted() -> Iterator[Measured]:
    """What netplan counts for every row."""
    for row in published(TABLE):
        name, _, what = row["name"].partition(": ")
        count, printed = parameter_count(MODELS.load(name)), float(row["expected"])
        found = count.total
        if what == ACTIVE:
            both = (count.active, count.active_without_embedding)
            found = min(both, key=lambda one: abs(one - printed))
        yield row["name"], float(found)
