"""Random views over random histories, each refresh against Spark's own answer; what fails is shrunk to a short script.

``nodes``, ``expressions`` and ``queries`` are the views as values, ``rules`` and ``grammar`` make them, ``histories``
makes the commits; ``case`` joins both, ``trial`` runs cases on a lake, ``shrink`` makes a failing one small and
``script`` prints it. ``campaign`` goes through seeds: ``make fuzz MINUTES=30 SEED=7``.
"""
