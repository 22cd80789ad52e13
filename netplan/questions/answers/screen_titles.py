"""Titles of screens: the scenario first, then what network is asked about."""

from collections.abc import Mapping
from typing import Any


def titled(inputs: Mapping[str, Any], title: str) -> str:
    """A title behind the name of the scenario that is asked about, if there is one.

    Parameters
    ----------
    inputs
        Inputs of the answer.
    title
        What the screen is about.

    Returns
    -------
    str
        The title.

    Examples
    --------
    >>> titled({"scenario": "hgx-b200"}, "loads"), titled({}, "loads")
    ('hgx-b200: loads', 'loads')
    """
    scenario = inputs.get("scenario")
    return f"{scenario}: {title}" if scenario else title


def network_words(inputs: Mapping[str, Any]) -> str:
    """How large a network is and what its switches are, in words that fit a title.

    Parameters
    ----------
    inputs
        Inputs of the answer; what they do not hold is left out.

    Returns
    -------
    str
        The words.

    Examples
    --------
    >>> network_words({"gpus": 32768, "hb_size": 8, "radix": 128, "link_gbps": 400.0})
    '32,768 GPUs in HB domains of 8, 128-port 400G switches'
    """
    words = f"{inputs['gpus']:,} GPUs in HB domains of {inputs['hb_size']:,}"
    if inputs.get("radix"):
        speed = f"{inputs['link_gbps']:g}G " if inputs.get("link_gbps") else ""
        words += f", {inputs['radix']}-port {speed}switches"
    return words
