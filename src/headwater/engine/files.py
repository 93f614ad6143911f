"""Removing a directory of the lake, wherever it is.

Spark has no public call for that. pyarrow's file systems know local paths and the usual object stores by URI.
"""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from pyarrow import ArrowException, fs

logger = logging.getLogger(__name__)


def remove_directory(location: str) -> bool:
    """Remove a directory and all in it; True when it is gone. What can't be removed is told in the log, never raised:
    nobody reads it any more, so it costs space and nothing else."""
    try:
        if urlsplit(location).scheme in ("", "file"):
            system: fs.FileSystem = fs.LocalFileSystem()
            path = urlsplit(location).path
        else:
            system, path = fs.FileSystem.from_uri(location)
        if system.get_file_info(path).type is fs.FileType.NotFound:
            return True
        system.delete_dir(path)
    except (OSError, ArrowException, NotImplementedError, ImportError) as error:
        logger.warning("Could not remove %s (%s); it is no longer used and can be removed by hand.", location, error)
        return False
    return True
