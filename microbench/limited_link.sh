#!/bin/sh
# Runs an MPI program on ranks that are connected only by a link of limited rate. Each rank is in its own network
# namespace, all namespaces share one bridge, and both ends of every cable have a token bucket. Needs root, iproute2 and
# MPICH (whose UCX then uses TCP). Removes everything at the end.
#
# With TCP through UCX, MPI_Finalize of MPICH 4.0.2 may hang. One rank waits for its connections to close, but the other
# ranks have already closed their connections, and no longer react. This happened in 6 of 12 launches of a plain MPI
# program. At this time all results have been written. So interrupt the script, or set LIMIT to a number of seconds. The
# script then ends after LIMIT seconds with exit status 124.
#
# libsched treats each rank as a separate host (LSCHED_RANKS_PER_NODE). The rate "none" sets no limit.
#
#   limited_link.sh RANKS RATE PROGRAM [ARGUMENTS…]
#   limited_link.sh 4 100mbit build/bin/lsched bench coll --transport net
set -eu
[ $# -ge 3 ] || { echo "usage: $0 RANKS RATE PROGRAM [ARGUMENTS...]" >&2; exit 2; }
ranks=$1 rate=$2
shift 2
name=lsched$$

clean() {
  for r in $(seq 0 $((ranks - 1))); do ip netns del "$name-$r" 2>/dev/null || true; done
  ip link del "${name}b" 2>/dev/null || true
}
trap clean EXIT
trap 'exit 130' INT TERM

ip link add "${name}b" type bridge
ip link set "${name}b" up
for r in $(seq 0 $((ranks - 1))); do
  ip netns add "$name-$r"
  ip link add "${name}v$r" type veth peer name eth0 netns "$name-$r"
  ip link set "${name}v$r" master "${name}b" up
  ip -n "$name-$r" addr add "10.77.0.$((r + 1))/16" dev eth0
  ip -n "$name-$r" link set eth0 up
  ip -n "$name-$r" link set lo up
  [ "$rate" != none ] || continue
  limit="tbf rate $rate burst 64kb latency 50ms"
  tc qdisc add dev "${name}v$r" root $limit
  ip netns exec "$name-$r" tc qdisc add dev eth0 root $limit
done

command=
for r in $(seq 0 $((ranks - 1))); do
  [ "$r" = 0 ] || command="$command :"
  command="$command -n 1 ip netns exec $name-$r"
  for word in "$@"; do command="$command $word"; done
done
export MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 LSCHED_RANKS_PER_NODE=1
bounded=${LIMIT:+timeout -k 5 $LIMIT}
$bounded ${MPIEXEC:-mpiexec.mpich} $command
