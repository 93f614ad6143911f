"""The moments of a view's tables for statements that compute: versions are looked up once (``engine.versions``)."""

from __future__ import annotations

from headwater.context import Context
from headwater.definition import CatalogMoments, Definition


def moments_of(context: Context, definition: Definition) -> CatalogMoments:
    return CatalogMoments(context.catalog, definition, context.engine.versions.named)
