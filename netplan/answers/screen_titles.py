"""Titles of screens: the scenario first, then what network is asked about."""

from collections.abc import Iterable, Mapping
from typing import Any

from netplan.costing.fabric_bill import RefusedFabric
from netplan.records import replace
from netplan.reports.screen import WIDTH
from netplan.reports.sections import Heading, Notes
from netplan.setup.inputs import replaced_lines, sites_words


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


def network_title(about: str, inputs: Mapping[str, Any]) -> str:
    """Title of an answer about a network: of which GPUs, in which sites, of which switches.

    Parameters
    ----------
    about
        What the answer is about, with the number of GPUs.
    inputs
        Inputs of the answer.

    Returns
    -------
    str
        The title.

    Examples
    --------
    >>> network_title("Failures on 1,024", {"hb_size": 8, "switch": None, "radix": 64})
    'Failures on 1,024 GPUs in HB domains of 8: switches of 64 ports'
    """
    sites = f" in {sites_words(inputs)}" if inputs.get("sites") else ""
    switches = f"switches {inputs['switch']}" if inputs["switch"] else "switches"
    domains = f"HB domains of {inputs['hb_size']:,}{sites}"
    return f"{about} GPUs in {domains}: {switches} of {inputs['radix']} ports"


def bought_lines(inputs: Mapping[str, Any], currency: str) -> tuple[str, ...]:
    """Lines of a heading on spares, and on the values that were replaced."""
    spares = ", ".join(inputs["spares"])
    spared = (f"with spares {spares}, rounded up line by line",) if spares else ()
    return (*spared, *replaced_lines(inputs, "" if inputs["currency"] else currency))


def refused_notes(
    notes: Iterable[tuple[str, Iterable[str]]],
    refused: Iterable[RefusedFabric],
    others: Iterable[str] = (),
) -> Notes:
    """Notes of fabrics, why others cannot be built, and what is of none."""
    groups = Notes.of(notes, "all fabrics").groups
    reasons = ((fabric.name, fabric.reason) for fabric in refused)
    return Notes((*groups, *reasons, *(("", note) for note in others)))


def _model_words(inputs: Mapping[str, Any]) -> str:
    """Which model of the catalog the switches stand for, if one does."""
    return f" (as {inputs['stands_for']})" if inputs.get("stands_for") else ""
