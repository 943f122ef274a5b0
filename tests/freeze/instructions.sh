#!/bin/sh
# Does a new build of the library execute more instructions per op than an old one?
#
#     tests/freeze/instructions.sh OLD_PREFIX NEW_PREFIX [ROUNDS]      prefixes as for compare.py; 200 rounds
#
# bench.c is compiled against each prefix and run under callgrind, which counts what is executed inside counted_rounds()
# and what that calls: per op, rounds of 1024 ops that do nothing, or add one element, as a chain and as a fan; and per
# rank, rounds of an allreduce of one float of eight ranks that one thread serves. There is one thread. The
# graphs of one build have the same count again, to the digit; the allreduce polls, and its counts differ by some tenths
# of a per cent. Both builds need the same compiler and flags.
# PASS: each ratio is at most 1.03. A line per graph; exit status: 0 PASS, 1 FAIL, 2 not measured.
set -eu
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  sed -n '4s/^# *//p' "$0" >&2
  exit 2
fi
source=$(dirname "$0")/bench.c
rounds=${3:-200}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

not_measured() {
  echo "not measured: $1" >&2
  [ ! -s "$folder/errors" ] || cat "$folder/errors" >&2
  exit 2
}

command -v valgrind > /dev/null || not_measured "there is no valgrind"

compile() { # PREFIX PROGRAM
  flags=$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs libsched) || not_measured "no libsched in $1"
  # shellcheck disable=SC2086  # flags are words
  ${CC:-cc} -std=c11 -O2 "$source" -o "$2" $flags -lm -pthread || not_measured "bench.c does not compile for $1"
}

count() { # PREFIX PROGRAM GRAPH
  LD_LIBRARY_PATH=$1/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 300 valgrind --tool=callgrind \
    --callgrind-out-file=/dev/null --collect-atstart=no --toggle-collect=counted_rounds \
    "$2" --engine "$3" "$rounds" > "$folder/divisor" 2> "$folder/errors" || not_measured "$3 of $1"
  awk '$1 == "divisor" { divisor = $2 } / Collected : / { instructions = $NF }
       END { if (divisor == 0 || instructions == 0) exit 1; printf "%.3f\n", instructions / divisor }' \
    "$folder/divisor" "$folder/errors" || not_measured "no count of $3 of $1"
}

compile "$1" "$folder/bench_old"
compile "$2" "$folder/bench_new"
verdict=PASS
printf '%-20s %12s %12s %8s\n' instructions old new ratio
for graph in engine.chain engine.fan engine.chain_sum engine.fan_sum allreduce.8ranks; do
  old=$(count "$1" "$folder/bench_old" $graph) || exit 2
  new=$(count "$2" "$folder/bench_new" $graph) || exit 2
  awk -v graph=$graph -v old="$old" -v new="$new" 'BEGIN {
    is_more = new > 1.03 * old
    printf "%-20s %12.2f %12.2f %8.4f%s\n", graph, old, new, new / old, is_more ? "  MORE" : ""
    exit is_more }' || verdict=FAIL
done
echo $verdict
[ $verdict = PASS ]
