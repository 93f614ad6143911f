"""Views over autonomous sources, kept completely consistent by version numbers [SzeLing00].

The sources are not locked, not rewound and not trusted to deliver their messages: notifications and answers may be
late, doubled, misordered or lost. ``numbers`` says what is numbered, ``updates`` what a source tells, ``definition``
what a view is, ``access`` how its relations are asked, ``compensation`` how an answer of the wrong state is mended,
``self_maintenance`` what need not be asked, ``computation`` carries one update through, and ``site`` is the state
machine over all of them: events in, instructions out.

*Three words that are never interchanged.* An **interfering** update is in an answer and should not be; a **missing**
update should be in an answer and is not, because the view that gave it was not refreshed yet; a **lost** update is one
whose notification has not arrived. Interfering updates are undone, missing ones redone, lost ones asked for again.
"Compensation" here is [SzeLing00]'s: an answer is mended from the log of updates, at the view's site, with no further
query of its own. [Salem00]'s, in ``headwater.propagate.compensation``, is another method under the same name: there
further queries are sent and their answers subtracted.
"""
