#!/bin/sh
# Makes the Debian package: builds the binary, has it write its completions, pages and schema, and packs all of it.
# Needs cargo-deb (cargo install cargo-deb). deploy/package.sh --no-build packs the binary that is in target/release.
set -eu
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*"; }

target=${CARGO_TARGET_DIR:-target}
if [ "$(cd "$target" 2>/dev/null && pwd -P)" != "$(mkdir -p target && cd target && pwd -P)" ]; then
    echo "the package takes its files from target/; unset CARGO_TARGET_DIR" >&2
    exit 2
fi
if ! command -v cargo-deb >/dev/null; then
    echo "cargo-deb is missing: cargo install cargo-deb" >&2
    exit 2
fi
if [ "${1:-}" != --no-build ]; then
    say "cargo build --release"
    cargo build --release --locked
fi
binary=target/release/cairn
parts=target/release/package

say "completions, pages and schema, by $binary"
rm -rf "$parts"
mkdir -p "$parts/completions" "$parts/man"
for shell in bash zsh fish; do
    "$binary" completions "$shell" >"$parts/completions/cairn.$shell"
done
"$binary" man "$parts/man"
gzip -9n "$parts"/man/*.1
"$binary" config schema >"$parts/config.schema.json"

# What Debian calls a changelog: the version and where to read on.
version=$("$binary" -V | sed 's/^cairn //')
{
    printf 'cairn (%s-1) stable; urgency=medium\n\n' "$version"
    printf '  * See /usr/share/doc/cairn/CHANGELOG.md.\n\n'
    printf ' -- The Cairn developers <cairn@example.org>  %s\n' "$(LC_ALL=C date -u '+%a, %d %b %Y %H:%M:%S +0000')"
} >"$parts/changelog"

say "cargo deb"
cargo deb --package cairn-daemon --no-build --locked
