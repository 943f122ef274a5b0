#!/bin/sh
# Runs an MPI program on ranks that reach each other only through a link of limited rate: each rank in a network
# namespace of its own, all of them at one bridge, a token bucket on both ends of every cable. As root; needs iproute2
# and MPICH (its UCX then talks TCP). Nothing remains afterwards.
#
# Over UCX's TCP, MPI_Finalize of MPICH 4.0.2 does not always return (of a plain MPI program, in 6 of 12 launches: one
# rank waits for connections to close, the others have closed theirs and no longer look). By then all results are
# written: interrupt it, or set LIMIT, the seconds after which it is ended (then its exit status is 124).
#
#   limited_link.sh RANKS RATE PROGRAM [ARGUMENTS…]        limited_link.sh 4 1gbit build/bin/lsched bench sparse
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

limit="tbf rate $rate burst 64kb latency 50ms"
ip link add "${name}b" type bridge
ip link set "${name}b" up
for r in $(seq 0 $((ranks - 1))); do
  ip netns add "$name-$r"
  ip link add "${name}v$r" type veth peer name eth0 netns "$name-$r"
  ip link set "${name}v$r" master "${name}b" up
  ip -n "$name-$r" addr add "10.77.0.$((r + 1))/16" dev eth0
  ip -n "$name-$r" link set eth0 up
  ip -n "$name-$r" link set lo up
  tc qdisc add dev "${name}v$r" root $limit
  ip netns exec "$name-$r" tc qdisc add dev eth0 root $limit
done

command=
for r in $(seq 0 $((ranks - 1))); do
  [ "$r" = 0 ] || command="$command :"
  command="$command -n 1 ip netns exec $name-$r"
  for word in "$@"; do command="$command $word"; done
done
export MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
bounded=${LIMIT:+timeout -k 5 $LIMIT}
$bounded ${MPIEXEC:-mpiexec.mpich} $command
