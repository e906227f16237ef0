#!/usr/bin/env bash
# Sends events, one JSON object a line on standard input, to keyfold's HTTP API.
#
#   KEYFOLD_URL=http://127.0.0.1:7080 KEYFOLD_TOKEN=... ./curl.sh <events.ndjson
#
# Sending a file again is safe. 408, 429 and 503 are tried again after the time
# that the server names; with any other refusal the script fails and prints what
# is wrong with which line. The token goes through a pipe, since everybody on
# the machine can read command lines.
set -eu

exec curl --silent --show-error --fail-with-body --max-time 60 --retry 5 --retry-connrefused \
  --header @<(printf '%s' "${KEYFOLD_TOKEN:+Authorization: Bearer $KEYFOLD_TOKEN}") \
  --header 'Content-Type: application/x-ndjson' --data-binary @- \
  "${KEYFOLD_URL:-http://127.0.0.1:7080}/v1/events"
