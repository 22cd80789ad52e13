"""What the backward pass computes again instead of keeping it, in Megatron-Core's words.

``none``, ``half`` (every other layer), ``full`` (every layer), ``block:K`` (the first K layers of
every pipeline stage), or names of modules joined by ``+``. What stacks hold and what it costs them
to compute it again say `netplan.performance.stack_memory` and `netplan.performance.calibrated`.
"""

from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from netplan.errors import InputError

if TYPE_CHECKING:
    from netplan.workloads.operations import Operation

RecomputedModule = Literal[
    "core_attn", "layernorm", "mlp", "moe_act", "mla_up_proj", "moe", "shared_experts", "sac-op"
]
"""Modules that are computed again by name; ``sac-op`` is torch's every other product."""

ALIASES = {"attention": "core_attn", "selective": "core_attn"}
"""Other names of modules."""

OF_EXPERTS = ("moe_act", "moe", "shared_experts")
OF_NORMS = ("layernorm", "moe_act")
"""Modules of layers with experts alone; those that a stack with delayed scaling keeps."""

Layers = Literal["none", "half", "full", "block"]


class Recomputation(Struct, frozen=True):
    """What is computed again: some of the layers, or modules of all of them.

    Parameters
    ----------
    layers
        Which layers are computed again whole.
    block
        The first so many layers of each stage, of ``block`` [1].
    modules
        Modules of every layer, by name.

    Examples
    --------
    >>> str(Recomputation.read("block:3")), Recomputation.read("selective").modules
    ('block:3', ('core_attn',))
    >>> str(Recomputation.read("moe_act+layernorm"))
    'moe_act+layernorm'
    """

    layers: Layers = "none"
    block: int = 0
    modules: tuple[RecomputedModule, ...] = ()

    def __str__(self) -> str:
        """As it is written in an option."""
        if self.modules:
            return "+".join(self.modules)
        return f"block:{self.block}" if self.layers == "block" else self.layers

    def shares(self, layers: float) -> dict[str, float]:
        """What share of the layers of a stage computes what again, by word.

        Parameters
        ----------
        layers
            Layers of the stage; of unlike ones those in the mean [1].

        Returns
        -------
        dict[str, float]
            Share of the layers that compute ``full`` or a module again [1].

        Examples
        --------
        >>> Recomputation.read("block:2").shares(8), Recomputation.read("moe_act").shares(8)
        ({'full': 0.25}, {'moe_act': 1.0})
        """
        if self.layers == "block":
            return {"full": min(1.0, self.block / layers)}
        return {word: 1.0 for word in (*self.modules, self.layers) if word != "none"}

    @classmethod
    def read(cls, text: str) -> "Recomputation":
        """Read what an option says.

        Parameters
        ----------
        text
            ``none``, ``half``, ``full``, ``block:K``, or names joined by ``+``.

        Returns
        -------
        Recomputation
            The same as a record.

        Raises
        ------
        InputError
            If a name is unknown or stands twice, K is no number from 1 on, or names stand beside
            ``none``, ``half``, ``full`` or ``block``.
        """
        words = [ALIASES.get(word, word) for word in text.strip().split("+")]
        if len(words) == 1 and words[0] in ("none", "half", "full"):
            return cls(words[0])  # type: ignore[arg-type]
        if len(words) == 1 and words[0].startswith("block:"):
            count = words[0].partition(":")[2]
            if count.isascii() and count.isdecimal() and int(count[:5]) >= 1:
                return cls("block", int(count[:5]))
            raise InputError(
                f"--recompute {text!r:.60}: block takes a number of layers from 1 on, as block:3"
            )
        known = get_args(RecomputedModule)
        for word in words:
            if word in ("none", "half", "full") or word.startswith("block"):
                raise InputError(
                    f"--recompute {text!r:.60}: {word} stands alone, since it says which layers"
                    " are computed again whole (full supersedes modules): leave the names out"
                )
            if word not in known:
                raise InputError(
                    f"--recompute {text!r:.60}: unknown {word!r:.30}: use auto, none, half, full,"
                    f" block:K, or names joined by +: {', '.join(known)}"
                )
        if len({*words}) < len(words):
            raise InputError(f"--recompute {text!r:.60}: a name stands twice: leave one out")
        return cls(modules=tuple(words))  # type: ignore[arg-type]


NOTHING = Recomputation()


ACTIVATIONS = ("gelu", "swiglu")
"""Operations between the two products of a feed-forward part."""
EXCHANGE = ("router", "expert-down", "dispatch", "combine", "expert-up")
"""Operations around experts, without weights of theirs."""


def is_routed(operation: "Operation") -> bool:
    """Whether an operation belongs to experts that tokens are sent to."""
    return operation.expert_weights or operation.name in EXCHANGE


def computed_again(word: str, operation: "Operation") -> float:
    """What share of an operation's forward pass a word of recomputation runs again [1].

    Parameters
    ----------
    word
        ``full``, ``half`` or a module.
    operation
        An operation of a layer, by its name and module.

    Returns
    -------
    float
        1 where it is run again, 0 where its results are kept; of ``half`` and ``sac-op``, which
        keep every other layer or product, one half.
    """
    name = operation.name
    if word in ("full", "half"):
        return 1.0 if word == "full" else 0.5
    if word == "sac-op":
        return 0.5 if name in ("qkv", "vproj", "fc1", "fc2") else 0.0
    routed = is_routed(operation)
    shared, dense = name.startswith("shared-"), name.startswith(("dense-", "fc", "drop1"))
    parts = {
        "core_attn": operation.scores,
        "layernorm": name.startswith("ln"),
        "mla_up_proj": name in ("q-up", "kv-up"),
        "moe_act": operation.expert_weights and name in ACTIVATIONS,
        "moe": routed or shared,
        "shared_experts": shared,
        "mlp": not routed and not shared and (dense or name in ACTIVATIONS),
    }
    return float(parts[word])
