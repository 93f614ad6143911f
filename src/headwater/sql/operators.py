"""How tightly Spark's operators bind: to print a tree so that Spark reads the same tree again.

Lowering puts expressions in the place of columns and of one another. What is meant is the tree; its text means the same
only with parentheses around every operand that binds no tighter than the operator it stands under. They are put in
here, in one place, whenever a tree is printed, so nothing that builds expressions has to think of them, and a text that
was read otherwise than Spark reads it is printed as it was read, and found out at CREATE.

The order is that of ``valueExpression`` and ``booleanExpression`` in Spark's grammar (SqlBaseParser.g4). Parentheses
are given too often rather than too seldom: on the right of an operator of the same tightness they always stand, and
around all that stands beside a predicate (IS, IN, LIKE ...), since these don't chain in Spark.
"""

from __future__ import annotations

from sqlglot import exp

TIGHTNESS: tuple[tuple[type[exp.Expr], ...], ...] = (
    (exp.Neg, exp.BitwiseNot),
    (exp.Mul, exp.Div, exp.IntDiv, exp.Mod),
    (exp.Add, exp.Sub, exp.DPipe),
    (exp.BitwiseLeftShift, exp.BitwiseRightShift),
    (exp.BitwiseAnd,),
    (exp.BitwiseXor,),
    (exp.BitwiseOr,),
    (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    (
        exp.Is,
        exp.In,
        exp.Between,
        exp.Like,
        exp.ILike,
        exp.RegexpLike,
        exp.Escape,
        exp.NullSafeEQ,  # printed IS NOT DISTINCT FROM
        exp.NullSafeNEQ,
        exp.Exists,
    ),
    (exp.Not,),
    (exp.And,),
    (exp.Or,),
)
"""From the tightest to the loosest; everything else that is printed stands by itself."""

_LEVELS = {kind: level for level, kinds in enumerate(TIGHTNESS) for kind in kinds}
_PREDICATE = _LEVELS[exp.Is]
_ALONE = -1
# What stands before a dot, a bracket or COLLATE must be one piece.
_POSTFIX = (exp.Dot, exp.Bracket, exp.Collate)
# Their grammar has a valueExpression where functions take any expression.
_OF_VALUES = (exp.Extract, exp.Trim, exp.Overlay)


def with_parentheses(tree: exp.Expr) -> exp.Expr:
    """The tree, changed in place, with parentheses wherever its text would otherwise read as another tree."""
    for node in list(tree.walk()):
        for key, value in list(node.args.items()):
            loosest = _loosest(node, key)
            if loosest is None:
                continue
            if isinstance(value, list):
                node.set(key, [_held(each, loosest) for each in value])
            elif level(value) > loosest:
                node.set(key, _held(value, loosest))
    return tree


def level(node: object) -> int:
    """The place of a node among the operators; below all of them if it is none."""
    return _LEVELS.get(type(node), _ALONE) if isinstance(node, exp.Expr) else _ALONE


def _held(value: exp.Expr, loosest: int) -> exp.Expr:
    return exp.Paren(this=value) if level(value) > loosest else value


def _loosest(node: exp.Expr, key: str) -> int | None:
    """The loosest operator that may stand bare in a place of a node; None: any may."""
    if isinstance(node, _POSTFIX):
        return _ALONE if key == "this" else _PREDICATE - 1
    if isinstance(node, _OF_VALUES):
        return _PREDICATE - 1
    own = level(node)
    if own == _ALONE:
        return None
    if isinstance(node, exp.Escape) and key == "this":
        return _PREDICATE  # the LIKE that it belongs to
    if own == _PREDICATE:
        # A list in parentheses takes any expression. Comparisons could stand bare beside a predicate: nobody knows.
        return None if key == "expressions" else _LEVELS[exp.BitwiseOr]
    if own == 0 or key == "expression":
        return own - 1  # -- would begin a comment
    return own
