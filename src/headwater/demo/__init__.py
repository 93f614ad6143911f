"""A small TPC-H lake that shows what Headwater does, and checks every answer that it gives."""

from headwater.demo.report import DemoReport
from headwater.demo.story import run

__all__ = ["DemoReport", "run"]
