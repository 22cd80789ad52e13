"""Racks that hold the switches of a network, where no hall says more of them."""

from msgspec import Struct

from netplan.topologies.families.clos import ceil_div


class SwitchRacks(Struct, frozen=True):
    """Racks of a network's switches, filled one after the other.

    Parameters
    ----------
    devices
        Switches, and hosts of the fabric manager that stand with them [1].
    units, switch_units
        Rack units of a rack and of a switch [1].
    each
        Devices of a full rack [1].
    hall
        Floor plan that says where the racks stand; empty without one.

    Examples
    --------
    42 units hold 21 switches of 2 units; 256 = 12 x 21 + 4.

    >>> racks = SwitchRacks(256, 42, 2, 21)
    >>> racks.count, racks.full, racks.last
    (13, 12, 4)
    """

    devices: int
    units: int
    switch_units: int
    each: int
    hall: str = ""

    @property
    def pitch(self) -> int:
        """Rack units from one switch to the next: a floor plan spreads them over the rack [1]."""
        return self.units // self.each if self.hall else self.switch_units

    @property
    def count(self) -> int:
        """Racks [1]."""
        return ceil_div(self.devices, self.each)

    @property
    def full(self) -> int:
        """Full racks [1]."""
        return self.devices // self.each

    @property
    def last(self) -> int:
        """Devices of the last rack that is not full [1]."""
        return self.devices % self.each
