"""A type as text that Spark reads back.

``simpleString`` writes the names of a struct's fields as they are; one such as ``a-b`` can't be read without quotes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def type_text(kind: DataType) -> str:
    """``simpleString``, with quotes around the names of fields that need them and no others: it stands in catalogs."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case StructType():
            return f"struct<{','.join(f'{_name(each.name)}:{type_text(each.dataType)}' for each in kind.fields)}>"
        case ArrayType():
            return f"array<{type_text(kind.elementType)}>"
        case MapType():
            return f"map<{type_text(kind.keyType)},{type_text(kind.valueType)}>"
        case _:
            return kind.simpleString()


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"
