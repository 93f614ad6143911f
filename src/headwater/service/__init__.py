"""``headwater run``: keeps views within their promises.

``headwater.schedule.keeping`` decides for one view, ``loop`` for all of them; both are pure, the loop against a clock
and a lake that it is given. ``spark_lake`` is the lake on Spark, ``http`` the doors for readers and metrics, ``run``
puts them together.
"""
