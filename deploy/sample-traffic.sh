#!/bin/sh
# Sample traffic for docker-compose.yml:
#   sample-traffic.sh run URL TOKENS    imports a made-up catalogue and posts 5 events a second of 300 made-up users
#   sample-traffic.sh products          prints the catalogue
#   sample-traffic.sh events SEED       prints a request of 5 events
set -eu

products() {
  awk 'BEGIN {
    split("trail running road hiking winter", kind); split("shoes jacket socks backpack bottle gloves", thing)
    for (i = 1; i <= 5; i++) for (j = 1; j <= 6; j++)
      printf "{\"product_id\":%d,\"product_name\":\"%s %s\",\"category\":\"Sports\"}\n", 6 * (i - 1) + j, kind[i], thing[j]
  }'
}

# A user has one kind of product at heart: two profiles of one kind are near each other. $RANDOM is
# not in every shell, so the seed comes from outside.
events() {
  awk -v seed="$1" -v at="$(date -u +%Y-%m-%dT%H:%M:%SZ)" 'BEGIN {
    srand(seed); split("trail running road hiking winter", kind); split("view view view click purchase", act)
    printf "["
    for (n = 1; n <= 5; n++) {
      user = 1 + int(300 * rand()); i = rand() < 0.8 ? user % 5 + 1 : 1 + int(5 * rand())
      printf "%s{\"user_id\":%d,\"occurred_at\":\"%s\",", (n > 1 ? "," : ""), user, at
      if (rand() < 0.2) printf "\"event_type\":\"search\",\"search_phrase\":\"%s shoes\"}", kind[i]
      else printf "\"event_type\":\"product_%s\",\"product_id\":%d}", act[1 + int(5 * rand())], 6 * (i - 1) + 1 + int(6 * rand())
    }
    print "]"
  }'
}

run() {
  products | keyfold products import - --embed
  seed=$(date +%s)
  while :; do
    seed=$((seed + 1))
    read -r token rest <"$2"
    wget -q -O /dev/null --header "Content-Type: application/json" --header "Authorization: Bearer $token" \
      --post-data "$(events "$seed")" "$1" || echo "sample-traffic: $1 takes no events for now" >&2
    sleep 1
  done
}

"$@"
