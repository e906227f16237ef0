#!/bin/sh
# Writes a new bearer token into the file "tokens" of a folder and a key for links to the preferences
# page into "link-key", unless it has them, and into the file "readers" the same token with the scope
# that reading takes.
set -eu
umask 077
cd "$1"
for file in tokens link-key; do
  if [ ! -s $file ]; then
    head -c 32 /dev/urandom | base64 >$file.new
    mv $file.new $file
  fi
done
echo "$(cat tokens) read" >readers.new
mv readers.new readers
