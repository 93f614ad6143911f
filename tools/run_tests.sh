#!/bin/sh
# The tests that need Spark, in two processes with a session each, file by file: a session spends most of its time on one
# core. Beside them, in a process of their own, all others. With arguments: pytest as asked for.
# usage: run_tests.sh PYTHON [ARGUMENT...]
python=$1
shift
if [ $# -gt 0 ]; then
  exec "$python" -m pytest "$@"
fi
quick="not soak and not heavy"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$python" -m pytest -p no:cacheprovider -m "$quick and not on_spark" >"$log" 2>&1 &
others=$!
"$python" -m pytest -n 2 --dist loadfile --durations=20 -m "$quick and on_spark"
on_spark=$?
echo "==> The tests without Spark"
wait "$others"
without=$?
cat "$log"
[ "$on_spark" -eq 0 ] && [ "$without" -eq 0 ]
