"""Model files: the hyperparameters of what is trained or computed, transformers in full."""

from typing import Any, ClassVar, Literal

from netplan.catalog import Record, Shelf
from netplan.documents import Document
from netplan.errors import CatalogError
from netplan.records import LayerCount, NonNegativeInt, PositiveFloat, PositiveInt


class Model(Record, frozen=True, kw_only=True):
    """A transformer, as its catalog file describes it.

    Unless the file says otherwise, ``ffn_size`` is 4 x hidden size, ``kv_heads`` the number of
    heads, ``head_size`` an even share of the hidden size, ``rotary`` what ``gated_ffn`` is, and
    ``batch`` absent; heads together may be wider or narrower than the hidden size. ``vocabulary``
    is 0 for a model without one, such as a vision transformer. ``training_tokens`` is the length of
    its published run, ``parameters`` the published count, for checks only. ``counts`` is what
    its batch counts.
    """

    counts: ClassVar[str] = "sequences"

    family: Literal["transformer"] = "transformer"
    hidden_size: PositiveInt
    layers: LayerCount
    heads: PositiveInt
    sequence_length: PositiveInt
    vocabulary: NonNegativeInt
    batch: PositiveInt
    kv_heads: PositiveInt | None = None
    head_size: PositiveInt | None = None
    ffn_size: PositiveInt | None = None
    gated_ffn: bool = False
    rotary: bool | None = None
    training_tokens: PositiveFloat | None = None
    parameters: PositiveFloat | None = None
    notes: tuple[str, ...] = ()

    @property
    def head_elements(self) -> int:
        """Elements of one attention head [1]."""
        return self.head_size or self.hidden_size // self.heads

    @property
    def query_size(self) -> int:
        """Elements of all heads together: width of the queries and of what attention gives [1]."""
        return self.heads * self.head_elements

    @property
    def rotates(self) -> bool:
        """Whether queries and keys are rotated by their position."""
        return self.gated_ffn if self.rotary is None else self.rotary

    def batch_on(self, gpus: int) -> int:  # noqa: ARG002 - of other families it grows with them
        """Global batch of one iteration where none is asked for [sequences]."""
        return self.batch

    def __post_init__(self) -> None:
        """Refuse heads without a whole number of elements each."""
        if self.head_size is None and self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size {self.hidden_size:,} is not a multiple of heads {self.heads}:"
                " each head needs a whole number of elements: change one, or give head_size"
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
                " this question takes transformers"
            )
        return self.schema


class WorkloadShelf(Shelf[Any], frozen=True):
    """Model files, each of the type that its family says (`netplan.workloads.families`)."""

    def schema_of(self, document: Document) -> type[Any]:
        """Type of the record in a file.

        Raises
        ------
        CatalogError
            If the family is unknown.
        """
        family = document.data.get("family", "transformer")
        if family == "transformer":
            return Model
        from netplan.workloads.families import FAMILIES  # noqa: PLC0415 - seldom used

        if family not in FAMILIES:
            line = document.line(["family"])
            raise CatalogError(
                f"{document.path}:{line}: family {family!r:.40} is unknown: known are"
                f" transformer, {', '.join(FAMILIES)}"
            )
        return FAMILIES[family]


MODELS = TransformerShelf("model", "traffic/models", Model)
WORKLOADS = WorkloadShelf("model", "traffic/models", Model)
