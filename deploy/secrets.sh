#!/bin/sh
# Makes what the proxies of a group share, in the directory that it is given
# (default: secrets beside this file): their CA, the key that encrypts the store,
# and passwords. What is there stays.
set -eu
umask 077
dir=${1:-$(dirname "$0")/secrets}
mkdir -p "$dir"
cd "$dir"
if [ ! -e ca.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj "/CN=sessionproxy CA" \
    -addext "basicConstraints=critical,CA:TRUE,pathlen:0" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout ca.key -out ca.pem 2>/dev/null
fi
for name in store.key redis.password crawler.password grafana.password; do
  [ -e "$name" ] || openssl rand -base64 32 >"$name"
done
# The image's user reads them.
[ "$(id -u)" != 0 ] || chown -R 65532:65532 .
echo "made in $(pwd): $(ls | tr '\n' ' ')"
