#!/usr/bin/env bash
# Makes the release twice, in clones at different paths and with empty build
# caches, and compares the bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
for n in first second; do
  git clone -q --no-local . "$work/$n/a-clone-of-the-$n"
  GOCACHE=$work/$n/cache "$work/$n/a-clone-of-the-$n/deploy/release.sh" "$work/$n/dist"
done
diff -r "$work/first/dist" "$work/second/dist"
echo "the same bytes twice"
