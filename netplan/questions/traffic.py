"""``netplan traffic``: who sends how much to whom in one training iteration."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from netplan.errors import InputError
from netplan.files import replacing
from netplan.questions.run import Workload, find_workload
from netplan.reports.text import Cell
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.matrix_files import save_csv, save_npz
from netplan.traffic.statistics import (
    KindShare,
    hb_share,
    heat_map,
    idle_pairs_share,
    kind_shares,
)
from netplan.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from netplan.questions.run_question import RunQuestion

HEAT_BLOCKS = 32


@dataclass(frozen=True, slots=True)
class TrafficAnswer:
    """The answer of :func:`training_traffic`."""

    workload: Workload
    matrix: TrafficMatrix
    shares: tuple[KindShare, ...]
    idle_pairs_share: float
    hb_share: float
    heat_bytes: tuple[tuple[float, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan traffic --format json``."""
        return {
            "netplan_version": __version__,
            "inputs": self.workload.inputs,
            "plan": self.workload.timed.plan.to_dict(),
            "total_bytes": self.matrix.total_bytes,
            "hb_share": self.hb_share,
            "idle_pairs_share": self.idle_pairs_share,
            "kinds": self.to_rows(),
            "heat_map_bytes": [list(row) for row in self.heat_bytes],
        }

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a kind of traffic."""
        return [{**asdict(share), "pair_bytes": share.pair_bytes} for share in self.shares]

    def to_frame(self) -> "pd.DataFrame":
        """One row a kind of traffic."""
        import pandas as pd

        return pd.DataFrame(self.to_rows()).set_index("kind")

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(escape=True))

    def save(self, path: Path) -> None:
        """Save the matrix as ``.npz`` (any size) or ``.csv`` (listed flows).

        Raises
        ------
        InputError
            If the ending is another one, or the file cannot be written.
        """
        writers = {".npz": save_npz, ".csv": save_csv}
        if path.suffix not in writers:
            raise InputError(f"--save {path}: name it .npz or .csv")
        with replacing(path) as new:
            writers[path.suffix](self.matrix, new)


def training_traffic(**question: Unpack["RunQuestion"]) -> TrafficAnswer:
    """Find the traffic matrix of a training run.

    Parameters
    ----------
    question
        As in `netplan.questions.run.find_workload`.

    Raises
    ------
    NetplanError
        If an input is not allowed, or there is no plan.

    Examples
    --------
    GPT-1T as in Fig. 4 of arXiv:2307.12169: ring collectives, 8 x 64 x 6.

    >>> answer = training_traffic(
    ...     gpus=3072, hb_size=8, batch=3072, algorithm="ring",
    ...     fixed={"tensor": 8, "pipeline": 64, "microbatch": 1, "interleave": 1})
    >>> [(share.kind, round(100 * share.bytes_share, 2)) for share in answer.shares]
    [('tensor', 97.44), ('data', 0.85), ('pipeline', 1.71)]
    """
    workload = find_workload(**question)
    matrix = workload.matrix()
    domain = workload.sizing.hb_size
    heat = heat_map(matrix, min(HEAT_BLOCKS, matrix.gpus))
    return TrafficAnswer(
        workload=workload,
        matrix=matrix,
        shares=kind_shares(matrix),
        idle_pairs_share=idle_pairs_share(matrix),
        hb_share=hb_share(matrix, domain),
        heat_bytes=tuple(tuple(float(cell) for cell in row) for row in heat),
    )
