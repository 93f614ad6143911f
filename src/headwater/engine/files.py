"""Listing, measuring and removing what lies in the lake, wherever it is.

Spark has no public call for that. pyarrow's file systems know local paths and the usual object stores by URI.
"""

from __future__ import annotations

import json
import logging
from urllib.parse import urlsplit

from pyarrow import ArrowException, fs

logger = logging.getLogger(__name__)

# What a file system says of a place that it can't list or change, or does not know at all.
_OUT_OF_REACH = (OSError, ArrowException, NotImplementedError, ImportError)


def directories_in(location: str) -> list[str]:
    """The names of the directories directly in a place; none where the place can't be listed."""
    return sorted(each.base_name for each in _directories(location))


def old_directories_in(location: str, before: float) -> list[str]:
    """Those that were last changed before a moment (seconds since 1970), where the place tells that."""
    dated = [each for each in _directories(location) if each.mtime is not None]
    return sorted(each.base_name for each in dated if each.mtime.timestamp() < before)


def _directories(location: str) -> list[fs.FileInfo]:
    try:
        system, path = file_system(location)
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    except _OUT_OF_REACH as error:
        logger.warning("Could not list %s (%s).", location, error)
        return []
    return [each for each in found if each.type is fs.FileType.Directory]


def bytes_in(location: str) -> int | None:
    """The size of all files in a place; None where it can't be listed."""
    try:
        system, path = file_system(location)
        found = system.get_file_info(fs.FileSelector(path, recursive=True))
    except _OUT_OF_REACH:
        return None
    return sum(each.size or 0 for each in found if each.type is fs.FileType.File)


def bytes_added(table: str, version: int) -> int | None:
    """The size of the files that a commit added to a Delta table, as its log tells; None where it can't be read."""
    try:
        system, path = file_system(f"{table.rstrip('/')}/_delta_log/{version:020}.json")
        with system.open_input_stream(path) as stream:
            actions = [json.loads(line) for line in stream.read().splitlines() if line]
    except (*_OUT_OF_REACH, ValueError):
        return None
    return sum(int(action["add"]["size"]) for action in actions if "add" in action)


def remove_directory(location: str) -> bool:
    """Remove a directory and all in it; True when it is gone. What can't be removed is told in the log, never raised:
    nobody reads it any more, so it costs space and nothing else."""
    try:
        system, path = file_system(location)
        if system.get_file_info(path).type is fs.FileType.NotFound:
            return True
        system.delete_dir(path)
    except _OUT_OF_REACH as error:
        logger.warning("Could not remove %s (%s); it is no longer used and can be removed by hand.", location, error)
        return False
    return True


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """Where a place is: the file system that knows it, and its path there."""
    if urlsplit(location).scheme in ("", "file"):
        return fs.LocalFileSystem(), urlsplit(location).path
    system, path = fs.FileSystem.from_uri(location)
    return system, path
