"""Conditions and formulas of study files: arithmetic and comparisons on named values, no more.

An expression works on single values and on whole columns alike. Nothing can be called but ``min``,
``max``, ``abs`` and ``log2``, nothing reached but the names of inputs and outputs, which may have
dots; there are no powers, so that no short text makes a number of a million digits.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from msgspec import Struct

from netplan.catalog import unknown_name
from netplan.errors import InputError
from netplan.reports.quantities import Scalar

MAX_LENGTH = 500
Value = Any
"""A number, a text, a truth value, or a numpy array of them."""

_BINARY: dict[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Value, Value], Value]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: dict[str, Callable[..., Value]] = {
    "min": lambda *values: reduce(np.minimum, values),
    "max": lambda *values: reduce(np.maximum, values),
    "abs": np.abs,
    "log2": np.log2,
}


class Expression(Struct, frozen=True):
    """A parsed condition or formula.

    Parameters
    ----------
    text
        As written.
    names
        Names that it reads.
    """

    text: str
    names: frozenset[str]

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Evaluate on single values or on columns.

        Raises
        ------
        InputError
            If values do not go together, such as a text in a sum or a division by zero.
        """
        try:
            with np.errstate(divide="raise", invalid="raise"):
                return _evaluate(ast.parse(self.text, mode="eval").body, values)
        except (TypeError, ZeroDivisionError, FloatingPointError) as error:
            raise InputError(f"{self.text!r} cannot be computed: {error}") from None

    def scalar(self, values: Mapping[str, Scalar]) -> Scalar:
        """Evaluate on single values; the result is a plain one."""
        found = self(values)
        scalar: Scalar = found.item() if hasattr(found, "item") else found
        return scalar


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
    try:
        body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"{text!r} is no condition or formula: write such as hb_size <= gpus"
        ) from None
    names: set[str] = set()
    _check(body, text, names)
    return Expression(text, frozenset(names))


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


def _check(node: ast.expr, text: str, names: set[str]) -> None:
    """Refuse all but the allowed nodes; collect the names."""
    name = _name(node)
    if name is not None:
        names.add(name)
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, bool)):
        return
    inner = _parts(node)
    if inner is None:
        raise InputError(
            f"{text!r}: only names, numbers, texts, + - * / // %, comparisons, and, or, not, min,"
            " max, abs and log2 are allowed"
        )
    for part in inner:
        _check(part, text, names)


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """Operands of an allowed node, None for any other."""
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        return [node.operand]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call) and not node.keywords and node.args:
        known = isinstance(node.func, ast.Name) and node.func.id in _CALLS
        return node.args if known else None
    return None


def _name(node: ast.expr) -> str | None:
    """A name with its dots, None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _name(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _evaluate(node: ast.expr, values: Mapping[str, Value]) -> Value:
    name = _name(node)
    if name is not None:
        if name not in values:
            raise unknown_name("name in a study's formula", name, list(values))
        return values[name]
    if isinstance(node, ast.Constant):
        return node.value
    # parse_expression lets no node through that has no parts.
    return _joined(node, [_evaluate(part, values) for part in _parts(node) or []])


def _joined(node: ast.expr, parts: list[Value]) -> Value:
    """The value of a node from those of its operands."""
    value: Value = parts[0]
    match node:
        case ast.BinOp(op=op):
            value = _BINARY[type(op)](*parts)
        case ast.UnaryOp(op=sign):
            value = np.logical_not(value) if isinstance(sign, ast.Not) else -value
        case ast.BoolOp(op=join):
            value = reduce(np.logical_and if isinstance(join, ast.And) else np.logical_or, parts)
        case ast.Compare(ops=ops):
            # A chain, such as 1 <= hb_size <= gpus.
            pairs = zip(ops, parts[:-1], parts[1:], strict=True)
            held = [_COMPARE[type(op)](one, two) for op, one, two in pairs]
            value = reduce(np.logical_and, held)
        case ast.Call(func=ast.Name(id=name)):
            value = _CALLS[name](*parts)
    return value
