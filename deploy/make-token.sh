#!/bin/sh
# Writes a new bearer token into the file "tokens" of a folder, unless it has one, and into the
# file "readers" the same token with the scope that reading takes.
set -eu
umask 077
cd "$1"
if [ ! -s tokens ]; then
  head -c 32 /dev/urandom | base64 >tokens.new
  mv tokens.new tokens
fi
echo "$(cat tokens) read" >readers.new
mv readers.new readers
