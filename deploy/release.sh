#!/usr/bin/env bash
# Makes the release of the commit that is checked out, in the directory that it
# is given: for each architecture an archive (static binary, manual pages,
# completions, licence) and an SBOM, and the checksums of all. The same commit and
# Go give the same bytes; release-check.sh shows it.
set -euo pipefail
umask 022
out=$(mkdir -p "${1:?say where to: release.sh DIR}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

[[ -z $(git status --porcelain) ]] || { echo "release: the tree has changes that are in no commit; commit them first" >&2; exit 1; }
version=$(git describe --tags --always)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
# The newest Go of its line, whose standard library has the latest mends: .ci/vulns looks at what this one makes.
export GOTOOLCHAIN=go1.26.10
# All that is compiled here has the same flags, so that no package is compiled twice for one machine.
export SOURCE_DATE_EPOCH CGO_ENABLED=0 GOOS=linux GOFLAGS=-trimpath TZ=UTC LC_ALL=C

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/share/man" "$work/share/completions"
say() { echo "release: $*" >&2; }

say "the manual pages"
go test ./cmd/sessionproxy -count=1 -run '^TestManual$' -manual "$work/share/man" >/dev/null
say "the completions"
go build -o "$work/" ./cmd/sessionproxy
for shell in bash zsh fish powershell; do
  "$work/sessionproxy" completion "$shell" >"$work/share/completions/sessionproxy.$shell"
done
say "the maker of SBOMs"
GOBIN=$work go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

for arch in amd64 arm64; do
  say "$arch"
  name=sessionproxy_${version}_linux_$arch
  mkdir "$work/$name"
  GOARCH=$arch go build -ldflags "-s -w -X main.version=$version" -o "$work/$name/" ./cmd/sessionproxy
  cp -r LICENSE README.md CHANGELOG.md deploy/systemd/sessionproxy.service "$work/share/man" "$work/share/completions" "$work/$name/"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -c "$name" | gzip -n9 >"$out/$name.tar.gz"
  GOARCH=$arch "$work/cyclonedx-gomod" app -json -licenses -noserial -main cmd/sessionproxy -output "$work/$name.json" . 2>"$work/said" ||
    { cat "$work/said" >&2; exit 1; }
  # A bill says when it was made: the commit's time, so that it is the same each time.
  node -e '
    const [from, to, seconds] = process.argv.slice(1), fs = require("fs");
    const bill = JSON.parse(fs.readFileSync(from));
    bill.metadata.timestamp = new Date(seconds * 1000).toISOString();
    fs.writeFileSync(to, JSON.stringify(bill, null, 2) + "\n");
  ' "$work/$name.json" "$out/$name.cdx.json" "$SOURCE_DATE_EPOCH"
done
(cd "$out" && sha256sum sessionproxy_"$version"_* >SHA256SUMS && cat SHA256SUMS)
