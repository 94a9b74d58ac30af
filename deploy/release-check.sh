#!/usr/bin/env bash
# Makes the release twice, in clones at different paths, with whatever the build
# cache has and with an empty one; compares the bytes, and looks at what is there.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for n in first second; do
  clone=$work/$n/a-clone-of-the-$n
  git clone -q --no-local . "$clone"
  [[ $n == first ]] || export GOCACHE=$work/cache
  "$clone/deploy/release.sh" "$work/$n/dist"
done
diff -r "$work/first/dist" "$work/second/dist"

cd "$work/first/dist"
sha256sum --quiet -c SHA256SUMS
version=$(git -C "$clone" describe --tags --always)
fail() { echo "release-check: $*" >&2; exit 1; }
for arch in amd64:X86-64 arm64:AArch64; do
  name=sessionproxy_${version}_linux_${arch%:*}
  tar -xzf "$name.tar.gz" -C "$work"
  binary=$work/$name/sessionproxy
  elf=$(readelf -hlSW "$binary")
  grep -q "${arch#*:}" <<<"$elf" || fail "$binary is for another machine"
  ! grep -qE 'INTERP|DYNAMIC' <<<"$elf" || fail "$binary is not static"
  ! grep -qE '\.(symtab|debug_|zdebug_)' <<<"$elf" || fail "$binary is not stripped"
  grep -aqF "$version" "$binary" || fail "$binary has no version"
  for file in LICENSE README.md CHANGELOG.md sessionproxy.service man/sessionproxy{,-serve}.1 completions/sessionproxy.{bash,zsh,fish,powershell}; do
    [[ -s $work/$name/$file ]] || fail "$name.tar.gz has no $file"
  done
  node -e 'process.exit(JSON.parse(require("fs").readFileSync(process.argv[1])).components.length > 20 ? 0 : 1)' "$name.cdx.json" ||
    fail "$name.cdx.json does not tell what the program is made of"
done
said=$("$work/sessionproxy_${version}_linux_$(go env GOARCH)/sessionproxy" version)
[[ $said == *"$version"* ]] || fail "the program says $said, and is $version"
echo "the same bytes twice: static, stripped, $said, with manual pages, completions, SBOM and checksums"
