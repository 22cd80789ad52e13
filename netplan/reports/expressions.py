"""Conditions and formulas of files: arithmetic and comparisons on named values, no more.

An expression works on single values and on whole columns alike. Nothing can be called but ``min``,
``max``, ``abs`` and ``log2``, nothing reached but the names of inputs and outputs, which may have
dots, and underscores for their hyphens; there are no powers, so that no short text makes a number
of a million digits. Texts are whole words: equal or not.
"""

import ast
import operator
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.reports.quantities import Scalar

MAX_LENGTH = 500
MAX_DEPTH = 250
"""Operations inside each other: a sum as long as a formula may be, on the stack of any Python."""
LARGEST = 10**300
"""Largest whole number that a formula may give: the largest float has a few digits more."""

Value = Any
"""A number, a text, a truth value, or a numpy array of them."""

Values = Mapping[str, Value]


def _of_numbers(join: Callable[..., Value]) -> Callable[..., Value]:
    """The same, but not of texts: a short one times a large number would fill the memory."""

    def joined(*values: Value) -> Value:
        if any(_has_text(value) for value in values):
            raise TypeError("texts can only be compared, by == and !=")
        return join(*values)

    return joined


def _has_text(value: Value) -> bool:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return any(isinstance(cell, str) for cell in value.flat)
    return isinstance(value, str) or getattr(value, "dtype", np.dtype(float)).kind in "US"


_NUMBERS: Mapping[type[ast.AST], Callable[..., Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_OPERATORS: Mapping[type[ast.AST], Callable[..., Value]] = {
    **{sign: _of_numbers(join) for sign, join in _NUMBERS.items()},
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Not: np.logical_not,
    ast.And: lambda *values: reduce(np.logical_and, values),
    ast.Or: lambda *values: reduce(np.logical_or, values),
}
_CALLS: Mapping[str, Callable[..., Value]] = {
    "min": _of_numbers(lambda *values: reduce(np.minimum, values)),
    "max": _of_numbers(lambda *values: reduce(np.maximum, values)),
    "abs": _of_numbers(np.abs),
    "log2": _of_numbers(np.log2),
}


class Expression(Struct, frozen=True):
    """A condition or formula: its text, the names that it reads, and what computes it."""

    text: str
    names: frozenset[str]
    compute: Callable[[Values], Value]

    def __call__(self, values: Values) -> Value:
        """Evaluate on single values or on columns.

        Raises
        ------
        InputError
            If values do not go together, such as a text in a sum or a division by zero.
        """
        try:
            with np.errstate(divide="raise", invalid="raise"):
                result = self.compute(values)
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise InputError(f"{self.text!r} cannot be computed: {error}") from None
        if isinstance(result, int) and abs(result) > LARGEST:
            raise InputError(f"{self.text!r} cannot be computed: it is too large a number")
        return result

    def scalar(self, values: Mapping[str, Scalar]) -> Scalar:
        """Evaluate on single values; the result is a plain one, None where one of them is None."""
        if any(values.get(key_of(name, values) or name, 0) is None for name in self.names):
            return None
        result = self(values)
        scalar: Scalar = result.item() if hasattr(result, "item") else result
        return scalar


@lru_cache(maxsize=256)
def parse_expression(text: str) -> Expression:
    """Parse a condition or formula.

    Raises
    ------
    InputError
        If it is not one, or uses more than arithmetic, comparisons, and, or, not.

    Examples
    --------
    >>> fits = parse_expression("hb_size <= gpus and gpus % hb_size == 0")
    >>> sorted(fits.names), bool(fits({"hb_size": 8, "gpus": 64}))
    (['gpus', 'hb_size'], True)
    >>> fits({"hb_size": np.array([8, 48]), "gpus": 64})
    array([ True, False])
    """
    if len(text) > MAX_LENGTH:
        raise InputError(f"{text[:40]!r}... is longer than {MAX_LENGTH} characters: shorten it")
    names: set[str] = set()
    try:
        with warnings.catch_warnings(action="error"):  # such as of \\d in a text
            compute = _compiled(ast.parse(text, mode="eval").body, names)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"{text!r} is no condition or formula: write such as hb_size <= gpus"
        ) from None
    except KeyError:
        raise InputError(
            f"{text!r}: only names, numbers, texts, + - * / // %, comparisons, and, or, not, min,"
            " max, abs and log2 are allowed"
        ) from None
    return Expression(text, frozenset(names), compute)


def require_expression(text: str) -> None:
    """Refuse a text that is no expression, as the validators of files do.

    Raises
    ------
    ValueError
        With the message of :func:`parse_expression`.
    """
    try:
        parse_expression(text)
    except InputError as error:
        raise ValueError(str(error)) from None


def _compiled(node: ast.expr, names: set[str], depth: int = 1) -> Callable[[Values], Value]:
    """What computes a node; its names are added to ``names``, KeyError if it is not allowed."""
    if depth > MAX_DEPTH:
        raise RecursionError
    name = _name(node)
    if name is not None:
        names.add(name)
        return lambda values: _named(values, name)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
        constant = node.value
        return lambda _: constant
    join, operands = _operation(node)
    parts = [_compiled(operand, names, depth + 1) for operand in operands]
    return lambda values: join(*[part(values) for part in parts])


def _operation(node: ast.expr) -> tuple[Callable[..., Value], list[ast.expr]]:
    """What joins the operands of an allowed node, and these."""
    match node:
        case ast.UnaryOp(op=sign, operand=operand):
            return _OPERATORS[type(sign)], [operand]
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)], [left, right]
        case ast.BoolOp(op=sign, values=operands):
            return _OPERATORS[type(sign)], operands
        case ast.Compare(left=left, ops=signs, comparators=others):
            return _chain([_OPERATORS[type(sign)] for sign in signs]), [left, *others]
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as operands, keywords=[]):
            return _CALLS[name], operands
    raise KeyError


def _chain(signs: list[Callable[..., Value]]) -> Callable[..., Value]:
    """Comparisons in a chain, such as 1 <= hb_size <= gpus."""
    return lambda *values: reduce(
        np.logical_and, [sign(*pair) for sign, pair in zip(signs, pairwise(values), strict=True)]
    )


def _name(node: ast.expr) -> str | None:
    """A name with its dots, None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _name(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def key_of(name: str, known: Collection[str]) -> str | None:
    """What a name of a formula means; hyphens, which formulas lack, are underscores there.

    Examples
    --------
    >>> key_of("fabrics.rail_only.tiers", ["fabrics.rail-only.tiers"]), key_of("mfu", [])
    ('fabrics.rail-only.tiers', None)
    """
    if name in known:
        return name
    return next((key for key in known if key.replace("-", "_") == name), None)


def _named(values: Values, name: str) -> Value:
    key = key_of(name, values)
    if key is None:
        raise unknown_name("name in a study's formula", name, list(values))
    return values[key]
