"""How unevenly tokens were measured to choose the experts of models, by their kind of attention.

Source: DODOCO (arXiv:2605.20982), which measured five models on real text and finds that kinds of
attention fall into bands of the Gini coefficient, whatever the GPUs that share the experts.
"""

from netplan.catalog import Catalog, Record
from netplan.records import Share
from netplan.workloads.models import Model


class PublishedSkew(Record, frozen=True, kw_only=True):
    """The skew that was measured for models of one kind of attention.

    Parameters
    ----------
    gini, gini_high
        Gini coefficient of the rows of experts; its other end where a range is all that is
        known [1].
    at_least
        Whether it is a lower bound.
    measured
        Model that was measured.
    """

    gini: Share
    gini_high: Share | None = None
    at_least: bool = False
    measured: str

    @property
    def ends(self) -> tuple[float, ...]:
        """Both ends of the range, or the only value [1]."""
        return (self.gini,) if self.gini_high is None else (self.gini, self.gini_high)

    @property
    def words(self) -> str:
        """The value in words.

        Examples
        --------
        >>> EXPERT_SKEWS.load("latent").words, EXPERT_SKEWS.load("grouped").words
        ('Gini at least 0.24', 'Gini 0.15 to 0.24')
        """
        if self.at_least:
            return f"Gini at least {self.gini:g}"
        return "Gini " + " to ".join(f"{end:g}" for end in self.ends)


EXPERT_SKEWS = Catalog("expert-skew", "traffic/expert-skews", PublishedSkew)


def skew_family(model: Model) -> str:
    """Name of the record of models like this.

    Parameters
    ----------
    model
        A transformer with experts.

    Returns
    -------
    str
        By its kind of attention; that of linear attention or Mamba where only some layers have it.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> [skew_family(MODELS.load(name)) for name in ("deepseek-v3", "qwen3.5-397b-a17b")]
    ['latent', 'linear']
    >>> [skew_family(MODELS.load(name)) for name in ("gpt-oss-120b", "nemotron-3-nano")]
    ['grouped', 'mamba']
    """
    if model.mamba is not None:
        return "mamba"
    if model.linear_attention is not None:
        return "linear"
    if model.latent_attention is not None:
        return "latent"
    return "multi-head" if model.key_heads == model.heads else "grouped"
