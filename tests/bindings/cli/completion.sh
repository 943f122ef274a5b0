# completion.sh LSCHED: checks the words that the completion for bash offers. Other shells, if installed, must read
# their completion script without an error.
set -eu
lsched=$1
source <("$lsched" completion bash)

# offers WORD... : prints the completions of the last word
offers() {
  COMP_WORDS=(lsched "$@") COMP_CWORD=$#
  COMPREPLY=()
  _lsched "$lsched"
  echo "${COMPREPLY[*]}"
}

# expect WANTED WORD...
expect() {
  local wanted=$1 found
  shift
  found=$(offers "$@")
  [ "$found" = "$wanted" ] || { echo "lsched $*: \"$found\" instead of \"$wanted\"" >&2; exit 1; }
}

expect "verify" ver
expect "cost coll compare" bench co
expect "cost coll compare" help bench co
expect "bench" help be
expect "allreduce" show allr
expect "allreduce" list allr
expect "sparse_allreduce" verify sp
expect "f16 f32 f64" list --dtype f
expect "f16 f32 f64" verify --dtype f
expect "band bor bxor" show allreduce --op b
for command in show simulate verify; do
  expect "ring" $command allreduce --algorithm rin
  expect "oktopk" $command sparse_allreduce --algorithm ok
done
expect "--ranks --ranks-per-node --rank" show allreduce --rank
expect "" list --dtype q
[[ " $(offers show --s) " == *" --svg "* ]]
[[ " $(offers bench sparse --) " == *" --boundaries "* ]]
if (expect "wrong" ver) 2>/dev/null; then echo "expect() cannot fail" >&2; exit 1; fi

for shell in zsh fish; do
  "$lsched" completion $shell >/dev/null
  command -v $shell >/dev/null || continue
  "$lsched" completion $shell | $shell -n
done
