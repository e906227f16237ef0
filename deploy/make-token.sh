#!/bin/sh
# Writes a new bearer token into the file "tokens" of a folder, unless it has one.
set -eu
umask 077
cd "$1"
[ -s tokens ] && exit 0
head -c 32 /dev/urandom | base64 >tokens.new
mv tokens.new tokens
