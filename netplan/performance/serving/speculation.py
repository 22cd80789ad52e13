"""Speculative decoding: a small draft proposes tokens, the target accepts some of them at once.

A *window* of K tokens is drafted one level after the other. As a sequence each level has one token;
in a tree each token has two that may follow, so that level d has 2^d of them (SpecInfer,
arXiv:2305.09781). The target then passes over all of them, and over the last token that is known:

===============  ===============================  ==========================================
                 sequence                         tree
===============  ===============================  ==========================================
a level goes on  p = a, the acceptance            p = 1 - (1-a)^2: either branch, independent
tokens a step    1 + p + ... + p^K = (1 - p^(K+1)) / (1 - p)
drafted          K passes over 1 token            K passes over 1, 2, ... 2^(K-1) tokens
target           one pass over K+1 tokens         one pass over 2^(K+1) - 1 tokens
===============  ===============================  ==========================================

The 1 of tokens a step is the target's own: behind what it accepts it has the next token.

Source: Ko et al., DFModel (arXiv:2412.16432), Sec. VIII-B, which prints no formula; that of
sequences is Leviathan et al. (arXiv:2211.17192), Eq. 1. Left out: acceptances that differ by
position or by draft, and reading of rejected tokens from the cache.
"""

from collections.abc import Callable
from typing import NamedTuple, get_args

import numpy as np

from netplan.arrays import Amount, Counts, Ints
from netplan.errors import InputError
from netplan.inputs.choices import Scheme
from netplan.traffic.algorithms import as_amount, check_choice, check_number

BRANCHES = 2
"""Tokens that may follow a token in a tree [1]."""

MAX_WINDOW = {"sequence": 1000, "tree": 20}
"""Longest windows; a tree of 20 levels has two million tokens [1]."""

PassSeconds = Callable[[Ints], Amount]
"""Time of a pass over so many tokens of a request at once, on the last axis; for an array of times
by tokens its ``__getitem__`` [s]."""


def tokens_per_step(window: Counts, acceptance: Amount, scheme: Scheme = "sequence") -> Amount:
    """Tokens that a step gives on average: those accepted, and the target's own [1].

    Parameters
    ----------
    window
        Tokens, or levels of a tree, that are drafted a step, K [1].
    acceptance
        Share of drafted tokens that the target accepts, a [1].
    scheme
        ``sequence`` or ``tree``.

    Returns
    -------
    float or array
        Of the shape to which window and acceptance broadcast [1].

    Raises
    ------
    InputError
        If the window is no whole number or too long, or the acceptance not within 0 and 1.

    Examples
    --------
    >>> tokens_per_step(4, np.array([0.0, 0.5, 1.0]))
    array([1.    , 1.9375, 5.    ])
    >>> tokens_per_step(2, 0.5, "tree")
    2.3125
    """
    check_window(window, scheme)
    check_number("acceptance", acceptance)
    if np.any(np.asarray(acceptance) > 1):
        raise InputError(
            f"acceptance: got {np.max(acceptance):g}: give the share of drafted tokens that the"
            " target accepts, 0 to 1"
        )
    rejected = 1.0 - np.asarray(acceptance)
    goes_on = 1.0 - (rejected**BRANCHES if scheme == "tree" else rejected)
    windows = np.asarray(window)
    tokens = np.ones(np.broadcast_shapes(windows.shape, goes_on.shape))
    for level in range(int(windows.max(initial=0))):  # by Horner's rule
        tokens = np.where(level < windows, 1.0 + goes_on * tokens, tokens)
    return as_amount(tokens)


def step_s(
    window: Counts, scheme: Scheme = "sequence", *, draft_s: PassSeconds, target_s: PassSeconds
) -> Amount:
    """Time in which a window is drafted and checked [s].

    Parameters
    ----------
    window
        Tokens, or levels of a tree, that are drafted a step; one number or a row of them [1].
    scheme
        ``sequence`` or ``tree``.
    draft_s, target_s
        Time of a pass of either model over so many tokens at once, along the last axis [s].

    Returns
    -------
    float or array
        Windows lie along the last axis [s].

    Raises
    ------
    InputError
        If the window is no whole number or too long.

    Examples
    --------
    A draft of 1 ms whatever it drafts, a target of 10 ms and 1 ms a token.

    >>> def draft_s(tokens): return 1e-3 * np.ones(len(tokens))
    >>> def target_s(tokens): return 1e-3 * (10 + tokens)
    >>> round(step_s(4, draft_s=draft_s, target_s=target_s), 6)
    0.019
    >>> step_s(np.array([1, 4]), "tree", draft_s=draft_s, target_s=target_s).round(6)
    array([0.014, 0.045])
    """
    check_window(window, scheme)
    windows = np.atleast_1d(window)
    levels = np.arange(windows.max(initial=0))
    drafted_s = np.asarray(draft_s(BRANCHES**levels if scheme == "tree" else np.ones_like(levels)))
    until_s = np.insert(np.cumsum(drafted_s, axis=-1), 0, 0.0, axis=-1)[..., windows]
    total_s = until_s + target_s(checked_tokens(windows, scheme))
    return as_amount(total_s if np.ndim(window) else total_s[..., 0])


def checked_tokens(window: Counts, scheme: Scheme = "sequence") -> Ints:
    """Tokens that the target passes over in a step [1].

    Examples
    --------
    >>> int(checked_tokens(4)), int(checked_tokens(4, "tree"))
    (5, 31)
    """
    windows = np.asarray(window, dtype=np.int64)
    return BRANCHES ** (windows + 1) - 1 if scheme == "tree" else windows + 1


class Speculation(NamedTuple):
    """What a window gives.

    Parameters
    ----------
    tokens
        Tokens of a step on average [1].
    step_s
        Time of a step [s].
    """

    tokens: Amount
    step_s: Amount

    @property
    def tpot_s(self) -> Amount:
        """Mean time of an output token [s]."""
        return self.step_s / self.tokens


def speculate(
    window: Counts,
    acceptance: Amount,
    *,
    scheme: Scheme = "sequence",
    draft_s: PassSeconds,
    target_s: PassSeconds,
) -> Speculation:
    """Tokens and time of a step, of `tokens_per_step` and `step_s`.

    Examples
    --------
    Llama 3 405B on 16 SN40L gives 30 tokens/s alone, and 85 with a draft of 68 million parameters
    that is right three times out of four.

    >>> from netplan.performance.serving.closed_form import TokenPass, Sizes, TensorGroup, pass_time
    >>> from netplan.workloads.accelerators import ACCELERATORS
    >>> from netplan.workloads.models import MODELS
    >>> group = TensorGroup.of(ACCELERATORS.load("sn40l"), 16)
    >>> def seconds(model):
    ...     sizes = Sizes.of(MODELS.load(model))
    ...     return lambda tokens: pass_time(sizes, group, work=TokenPass(tokens=tokens)).total_s
    >>> found = speculate(
    ...     np.array([0, 4]),
    ...     0.75,
    ...     draft_s=seconds("llama-68m"),
    ...     target_s=seconds("llama-3-405b"),
    ... )
    >>> (1 / found.tpot_s).round(1)
    array([30. , 85.1])
    """
    tokens = tokens_per_step(window, acceptance, scheme)
    return Speculation(tokens, step_s(window, scheme, draft_s=draft_s, target_s=target_s))


def check_window(window: Counts, scheme: Scheme) -> None:
    """Refuse windows that are none, or too long."""
    check_choice("scheme", scheme, get_args(Scheme))
    check_number("window", window, whole=True)
    if np.any(np.asarray(window) > MAX_WINDOW[scheme]):
        raise InputError(
            f"window: got {np.max(window):,}: a {scheme} has at most {MAX_WINDOW[scheme]:,} levels"
        )
