"""What is asked of a cluster that serves: requests in flight, and a service level."""

from msgspec import Struct

from netplan.arrays import Bools
from netplan.errors import InputError
from netplan.performance.serving.outcomes import Outcome
from netplan.units import si


class Goal(Struct, frozen=True):
    """What is asked of a cluster: so many requests in all or a server, times at most [s].

    Raises
    ------
    InputError
        If both numbers of requests are given.
    """

    concurrency: int | None = None
    batch: int | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse two answers to one question."""
        if self.concurrency is not None and self.batch is not None:
            raise InputError(
                "--concurrency and --batch both say how many requests are in flight: give one"
            )

    def meets(self, found: Outcome) -> Bools:
        """Which outcomes are as fast as the service level, and fit."""
        good = found.fits.copy()
        if self.ttft_s is not None:
            good &= found.ttft_s <= self.ttft_s
        if self.tpot_s is not None:
            good &= found.tpot_s <= self.tpot_s
        return good

    @property
    def words(self) -> str:
        """The service level in words."""
        parts = [("TTFT", self.ttft_s), ("TPOT", self.tpot_s)]
        return " and ".join(
            f"{name} of at most {si(most, 's')}" for name, most in parts if most is not None
        )
