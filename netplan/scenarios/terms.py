"""What the economics book says and a question may say in its place: years, energy, work, money."""

from typing import Annotated

from msgspec import Meta

from netplan.inputs.choices import Cooling
from netplan.inputs.option import Option
from netplan.scenarios.described import Described, Typed


class Terms(Described, frozen=True, kw_only=True):
    """Values in place of those of the economics book."""

    years: Annotated[
        Annotated[int, Meta(ge=1, le=100)] | None,
        Typed("Years of use.", otherwise="the economics book's"),
    ] = None
    pue: Annotated[float | None, Typed("Facility over equipment power.", otherwise="the same")] = (
        None
    )
    tariff: Annotated[float | None, Typed("Price of a kWh.", otherwise="the same")] = None
    interest: Annotated[
        float | None, Option("Interest a year, as 7%.", "percent", otherwise="the same")
    ] = None
    cooling: Annotated[
        float | Cooling | None,
        Option(
            "What cools (air, cold-plate, immersion), with its PUE; or its energy over the rest.",
            "percent-or-cooling",
            metavar="KIND|%",
            otherwise="the servers' if they come with one alone; book's share of PUE - 1",
        ),
    ] = None
    maintenance: Annotated[
        float | None,
        Option("Work on site, of the price a year.", "percent", otherwise="the economics book's"),
    ] = None
    support: Annotated[
        float | None,
        Option("Maker's contract, of the price a year.", "percent", otherwise="the same"),
    ] = None
    yearly_spares: Annotated[
        float | None, Option("Parts used up, of the price a year.", "percent", otherwise="the same")
    ] = None
    grid: Annotated[
        str | None, Option("Country whose electricity it is, for carbon.", otherwise="the book's")
    ] = None
    gpu_hour: Annotated[
        float | None,
        Typed("Price of a GPU hour, for the cost of a run.", low=0, otherwise="economics book's"),
    ] = None
