"""What each GPU sends and receives, added up pair by pair."""

import numpy as np

from netplan.arrays import Floats
from netplan.traffic.matrix import TrafficMatrix


def end_bytes(matrix: TrafficMatrix) -> tuple[Floats, Floats]:
    """Bytes that each GPU sends, and receives, pair by pair."""
    pairs = matrix.listed()
    sent, received = np.zeros((2, matrix.gpus))
    np.add.at(sent, pairs.source, pairs.flow_bytes)
    np.add.at(received, pairs.destination, pairs.flow_bytes)
    return sent, received
