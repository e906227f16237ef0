#!/bin/sh
# As that of the image mariadb, with --connect --innodb_initialized.
set -eu
[ "$*" = "--connect --innodb_initialized" ] || { echo "healthcheck.sh: $* is not known" >&2; exit 2; }
engine=$(mariadb -h 127.0.0.1 -u "$MARIADB_USER" -p"$MARIADB_PASSWORD" -N -e \
  "SELECT COUNT(*) FROM information_schema.ENGINES WHERE engine = 'InnoDB' AND support IN ('YES', 'DEFAULT')")
[ "$engine" = 1 ]
