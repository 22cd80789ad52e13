"""The shelf of published designs: fabric specs of their own, and designs that are counted only.

``family`` says what a file is: a family of :class:`~netplan.topologies.specs.FabricSpec` is built
and wired like any fabric, each of the others is counted by its own schema.
"""

from collections.abc import Mapping
from typing import get_args

from netplan.catalog import Shelf, unknown_name
from netplan.documents import Document
from netplan.errors import CatalogError
from netplan.topologies.counted_designs import CountedDesign
from netplan.topologies.designs_dragonfly import UnevenDragonfly
from netplan.topologies.designs_in_pods import RackPods, SegmentedPod, WideUplinkPlanes, ZCube
from netplan.topologies.specs import FabricSpec

Design = FabricSpec | CountedDesign
COUNTED = (SegmentedPod, RackPods, WideUplinkPlanes, ZCube, UnevenDragonfly)


def _families(schema: type[Design]) -> tuple[str, ...]:
    """Values of ``family`` that a schema is for."""
    return get_args(schema.model_fields["family"].annotation)


SCHEMAS: Mapping[str, type[Design]] = {
    family: schema for schema in (FabricSpec, *COUNTED) for family in _families(schema)
}
"""Schema of a design by its family."""


class DesignShelf(Shelf[Design]):
    """Designs of all families in one folder."""

    def schema_of(self, document: Document) -> type[Design]:
        """Schema of the file's family.

        Raises
        ------
        CatalogError
            If the family is missing or unknown: file and line.
        """
        where = f"{document.path}:{document.line(('family',))}"
        if "family" not in document.data:
            raise CatalogError(f"{where}: family is missing: give one of {', '.join(SCHEMAS)}")
        family = str(document.data["family"])
        if family not in SCHEMAS:
            raise CatalogError(f"{where}: {unknown_name('family', family, SCHEMAS)}")
        return SCHEMAS[family]


# The shelf's one schema stands for none of them: schema_of tells them apart.
DESIGNS = DesignShelf("design", "topologies/designs", FabricSpec)
