"""The nomenclature: every quantity of an answer, as `reports/quantities.csv` has it."""

from docs.generators.tables import code, markdown, table
from netplan.reports.quantities import Quantity, nomenclature

FORMS = {"text": "text", "prose": "text", "code": "text", "percent": "share"}
INTRODUCTION = """# Nomenclature

Every quantity that an answer has, with the name that it carries in JSON, CSV, spreadsheets and data
frames, and the unit of its value there. Titles are what stands above a column of a table, which may
show the same value in another scale. A unit of 1 is a count, a share or a ratio. The page is made
from `reports/quantities.csv`.

"""


def nomenclature_page() -> str:
    """One table of all quantities, by name."""
    found = sorted(nomenclature().values(), key=lambda one: one.name)
    rows = [
        (code(one.name), markdown(one.title), _unit(one), markdown(one.meaning)) for one in found
    ]
    return INTRODUCTION + table(["name", "title", "unit", "meaning"], rows)


def _unit(one: Quantity) -> str:
    """Unit of a raw value; what has none is a text, or a number of things."""
    if one.unit:
        return markdown(one.unit)
    return FORMS.get(one.form, "1")
