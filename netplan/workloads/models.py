"""Model files: the hyperparameters of what is trained."""

from typing import Annotated, Literal

from msgspec import Meta

from netplan.catalog import Record, Shelf
from netplan.documents import Document
from netplan.errors import CatalogError
from netplan.records import NonNegativeInt, PositiveFloat, PositiveInt

MAX_LAYERS = 100_000
"""Layers of a model at most: plans are counted for every way to cut them into stages [1]."""


class Model(Record, frozen=True, kw_only=True):
    """A transformer, as its catalog file describes it.

    ``ffn_size`` is 4 x hidden size, ``kv_heads`` the number of heads and ``batch`` absent unless
    the file says otherwise. ``vocabulary`` is 0 for a model without one, such as a vision
    transformer. ``training_tokens`` is the length of its published run, ``parameters`` the
    published count, for checks only.
    """

    family: Literal["transformer"] = "transformer"
    hidden_size: PositiveInt
    layers: Annotated[int, Meta(gt=0, le=MAX_LAYERS)]
    heads: PositiveInt
    sequence_length: PositiveInt
    vocabulary: NonNegativeInt
    batch: PositiveInt
    kv_heads: PositiveInt | None = None
    ffn_size: PositiveInt | None = None
    gated_ffn: bool = False
    training_tokens: PositiveFloat | None = None
    parameters: PositiveFloat | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse heads without a whole number of elements each."""
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size {self.hidden_size:,} is not a multiple of heads {self.heads}:"
                " each head needs a whole number of elements"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")


class TransformerShelf(Shelf[Model], frozen=True):
    """Model files of transformers, beside which other families stand."""

    def schema_of(self, document: Document) -> type[Model]:
        """Type of the record in a file.

        Raises
        ------
        CatalogError
            If it is of another family.
        """
        family = document.data.get("family", "transformer")
        if family != "transformer":
            raise CatalogError(
                f"{document.path}:{document.line(['family'])}: a model of family {family!r:.40}:"
                " netplan map takes it, all other questions take transformers"
            )
        return self.schema


MODELS = TransformerShelf("model", "traffic/models", Model)
