#!/bin/sh
# A conveyor that was built without AWS, given as the only argument, does the main job and says what it lacks.
set -eu
conveyor=$1
folder=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$folder"' EXIT

fail() {
    echo "FAILED: $1" >&2
    cat "$folder"/*.log >&2 || true
    exit 1
}

if "$conveyor" dev --backend aws --data-dir "$folder/aws" > "$folder/aws.log" 2>&1; then fail "--backend aws started"; fi
grep -q "built without AWS" "$folder/aws.log" || fail "--backend aws is refused without a reason"
if "$conveyor" provision > "$folder/provision.log" 2>&1; then fail "provision ran"; fi
if "$conveyor" dev --sfn --data-dir "$folder/sfn" --listen 127.0.0.1:0 > "$folder/sfn.log" 2>&1; then fail "--sfn started"; fi
grep -q "built without AWS" "$folder/sfn.log" || fail "--sfn is refused without a reason"
if "$conveyor" dev --help | grep -q -- --aws-; then fail "--help has flags of AWS"; fi

"$conveyor" dev --gateway-url demo: --data-dir "$folder/data" --listen 127.0.0.1:0 > "$folder/out.log" 2> "$folder/err.log" &
server=$!
tries=0
until url=$(sed -n 's/^listening on //p' "$folder/out.log") && [ -n "$url" ]; do
    kill -0 "$server" 2>/dev/null || fail "the server ended"
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || fail "the server does not listen"
    sleep 0.1
done
seq 1 100 | sed 's|^|https://example.com/page/|' > "$folder/urls.txt"
"$conveyor" submit "$folder/urls.txt" --watch --json --server "$url" --api-key "$(cat "$folder/data/api-key")" \
    > "$folder/submit.log" || fail "submit"
grep -q '"successful":100' "$folder/submit.log" || fail "not every task was successful"
kill "$server"
wait "$server" || fail "SIGTERM did not end it in good order"
server=
echo "100 tasks drained by a conveyor without AWS"
