#!/usr/bin/env bash
# Sends a file through a broker of its own and compares what comes out: create a topic, publish with keys, consume with two members of one
# group, restart, consume again. Takes a few seconds; everything lives in a temporary folder.
#
#   scripts/smoke.sh [LINES]     default 20000
set -euo pipefail
cd "$(dirname "$0")/.."

lines=${1:-20000}
dir=$(mktemp -d)
broker=
stop_broker() {
  if [ -n "$broker" ] && kill -0 "$broker" 2>/dev/null; then
    kill -TERM "$broker"
    wait "$broker" || true
  fi
  broker=
}
finish() {
  status=$?
  stop_broker
  if [ "$status" -ne 0 ]; then
    printf 'smoke: failed; the broker said:\n' >&2
    cat "$dir/broker.log" >&2 || true
  fi
  rm -rf "$dir"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

CGO_ENABLED=0 go build -o "$dir/mortarmq" .
mq() { timeout 120 "$dir/mortarmq" "$@"; }

start_broker() {
  : >"$dir/ready"
  "$dir/mortarmq" serve --data-dir "$dir/data" --listen-client 127.0.0.1:0 --listen-admin 127.0.0.1:0 >"$dir/ready" 2>>"$dir/broker.log" &
  broker=$!
  for _ in $(seq 200); do
    if grep -q 'is ready' "$dir/ready"; then break; fi
    kill -0 "$broker" 2>/dev/null || { echo "smoke: the broker did not start" >&2; exit 1; }
    sleep 0.05
  done
  MORTARMQ_SERVER=$(sed -n 's/.* clients=\([^ ]*\).*/\1/p' "$dir/ready")
  MORTARMQ_ADMIN=$(sed -n 's/.* admin=\([^ ]*\).*/\1/p' "$dir/ready")
  export MORTARMQ_SERVER MORTARMQ_ADMIN
}

awk -v n="$lines" 'BEGIN { for (i = 1; i <= n; i++) printf "key%d line %d of the file\n", i % 97, i }' >"$dir/in"

start_broker
mq topics create smoke --partitions 4
mq pub smoke --file "$dir/in" --key-sep ' ' --producer-id 7
mq pub smoke --file "$dir/in" --key-sep ' ' --producer-id 7 # stores nothing a second time

# Two members of one group share the partitions.
mq sub smoke --group readers --idle 2s --format '%k %v\n' >"$dir/out1" &
first=$!
mq sub smoke --group readers --idle 2s --format '%k %v\n' >"$dir/out2"
wait "$first"
sort "$dir/in" >"$dir/want"
sort "$dir/out1" "$dir/out2" >"$dir/got"
cmp "$dir/want" "$dir/got"
echo "smoke: $lines lines came back, $(wc -l <"$dir/out1") and $(wc -l <"$dir/out2") by two members"

# After a restart another group reads it all, each key in the file's order.
stop_broker
start_broker
mq sub smoke --group auditors -n "$lines" --format '%k %v\n' >"$dir/out3"
sort -s -k1,1 "$dir/in" >"$dir/want"
sort -s -k1,1 "$dir/out3" >"$dir/got"
cmp "$dir/want" "$dir/got"
mq topics list
echo "smoke: the same after a restart, in order per key"
