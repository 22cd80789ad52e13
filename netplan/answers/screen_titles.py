"""Titles of screens: the scenario first, then what network is asked about."""

from collections.abc import Mapping
from typing import Any

from netplan.records import replace
from netplan.reports.screen import WIDTH
from netplan.reports.sections import Heading
from netplan.setup.inputs import sites_words


def titled(inputs: Mapping[str, Any], title: str) -> str:
    """A title behind the name of the scenario that is asked about, if there is one.

    The model that switches stand for is left out where the title would take a second line, which
    a sentence of the screen needs.

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
    whole = f"{scenario}: {title}" if scenario else title
    return whole if len(whole) <= WIDTH else whole.replace(_model_words(inputs), "")


def screen_heading(
    inputs: Mapping[str, Any], heading: Heading, *lines: str, lower: bool = True
) -> Heading:
    """A heading for a screen: the scenario first, and the lines that are given, if any are.

    Parameters
    ----------
    inputs
        Inputs of the answer.
    heading
        Its heading.
    *lines
        Lines that stand instead of its own.
    lower
        Whether its first word is a common one, which is written small behind a colon.

    Returns
    -------
    Heading
        The heading.

    Examples
    --------
    >>> screen_heading({"scenario": "hgx-b200"}, Heading("Loads of gpt-1t", ("rail-only",))).title
    'hgx-b200: loads of gpt-1t'
    """
    title = heading.title
    if lower and inputs.get("scenario"):
        title = title[:1].lower() + title[1:]
    return replace(heading, title=titled(inputs, title), lines=lines or heading.lines)


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
    words = f"{inputs['gpus']:,} GPUs"
    if inputs.get("hb_size"):
        words += f" in HB domains of {inputs['hb_size']:,}"
    if inputs.get("sites"):
        words += f" in {sites_words(inputs)}"
    if inputs.get("radix"):
        speed = f"{inputs['link_gbps']:g}G " if inputs.get("link_gbps") else ""
        words += f", {inputs['radix']}-port {speed}switches{_model_words(inputs)}"
    return words


def _model_words(inputs: Mapping[str, Any]) -> str:
    """Which model of the catalog the switches stand for, if one does."""
    return f" (as {inputs['stands_for']})" if inputs.get("stands_for") else ""
