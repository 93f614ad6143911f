"""What is known of a table of PostgreSQL as JSON, for the catalog, and back."""

from __future__ import annotations

from typing import Any

from headwater.sources.postgres.tables import Column, ReplicaIdentity, SourceTable, TableName
from headwater.sources.postgres.type_map import ArrayOf, EnumType, OtherType, PgType, Scalar


def table_as_json(table: SourceTable) -> dict[str, Any]:
    return {
        "oid": table.oid,
        "schema": table.name.schema,
        "table": table.name.name,
        "columns": [
            {
                "name": column.name,
                "type": _type_as_json(column.pg_type),
                "type_oid": column.type_oid,
                "spark_type": column.spark_type,
                "declared": column.declared,
            }
            for column in table.columns
        ],
        "key": list(table.key),
        "key_oid": table.key_oid,
        "identity": table.replica_identity.value,
    }


def table_of_json(stored: dict[str, Any]) -> SourceTable:
    return SourceTable(
        oid=stored["oid"],
        name=TableName(stored["schema"], stored["table"]),
        columns=tuple(
            Column(
                each["name"], _type_of_json(each["type"]), each["type_oid"], each["spark_type"], bool(each["declared"])
            )
            for each in stored["columns"]
        ),
        key=tuple(stored["key"]),
        replica_identity=ReplicaIdentity(stored["identity"]),
        key_oid=stored.get("key_oid"),
    )


def _type_as_json(pg: PgType) -> dict[str, Any]:
    match pg:
        case Scalar(name, modifier):
            return {"scalar": name, "modifier": modifier}
        case EnumType(name):
            return {"enum": name}
        case ArrayOf(element):
            return {"array": _type_as_json(element)}
        case OtherType(name):
            return {"other": name}


def _type_of_json(stored: dict[str, Any]) -> PgType:
    match stored:
        case {"scalar": name, "modifier": modifier}:
            return Scalar(name, modifier)
        case {"enum": name}:
            return EnumType(name)
        case {"array": element}:
            return ArrayOf(_type_of_json(element))
        case _:
            return OtherType(stored["other"])
