"""What the colours of a drawing of a network mean: how busy its links are, and what has failed."""

from msgspec import Struct

from netplan.arrays import Bools, Floats


class Coloured(Struct, frozen=True, eq=False):
    """What the colours of links and nodes mean.

    Parameters
    ----------
    share
        Of each link's time in that of the busiest link [1], shape (links,); None without loads.
    words
        What is written on a link of full share, such as ``11.8 ms``.
    links_out, nodes_out, cut_off
        Links and nodes that have failed, GPUs that reach nobody; None without failures.
    """

    share: Floats | None = None
    words: str = ""
    links_out: Bools | None = None
    nodes_out: Bools | None = None
    cut_off: Bools | None = None
