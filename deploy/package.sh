#!/bin/sh
# Makes the Debian package: builds the binary, has it write its completions, pages and schema, and packs all of it.
# Needs cargo-deb (cargo install cargo-deb).
#
#   deploy/package.sh                       builds, and packs for this machine
#   deploy/package.sh --no-build            packs the binary that is in target/release
#   deploy/package.sh --binary FILE         packs that binary
#
#   --target TARGET   of the binary, such as aarch64-unknown-linux-musl [default: this machine]
#   --writer FILE     a binary of the same version that runs here, and writes completions, pages and schema
#   --output DIR      where the package goes [default: target/debian, or target/TARGET/debian]
set -eu
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$1" >&2
    exit 2
}

build=yes
given=
cross=
writer=
output=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0"; exit 0 ;;
        --no-build) build=no ;;
        --binary) given=${2:?--binary takes a file}; build=no; shift ;;
        --target) cross=${2:?--target takes a target}; shift ;;
        --writer) writer=${2:?--writer takes a file}; shift ;;
        --output) output=${2:?--output takes a folder}; shift ;;
        *) fail "unknown option $1; see $0 --help" ;;
    esac
    shift
done
target=${CARGO_TARGET_DIR:-target}
if [ "$(cd "$target" 2>/dev/null && pwd -P)" != "$(mkdir -p target && cd target && pwd -P)" ]; then
    fail "the package takes its files from target/; unset CARGO_TARGET_DIR"
fi
command -v cargo-deb >/dev/null || fail "cargo-deb is missing: cargo install cargo-deb"
if [ -n "$cross" ] && [ "$build" = yes ]; then fail "--target needs --binary: deploy/static.sh builds for other machines"; fi
if [ "$build" = yes ]; then
    say "cargo build --release"
    cargo build --release --locked
fi
# cargo-deb takes the binary from there, below the target if one is named.
binary=target/${cross:+$cross/}release/cairn
if [ -n "$given" ]; then
    mkdir -p "$(dirname "$binary")"
    cp "$given" "$binary.new"
    chmod 755 "$binary.new"
    mv -f "$binary.new" "$binary"
fi
writer=${writer:-$binary}
parts=target/${cross:+$cross/}release/package

say "completions, pages and schema, by $writer"
rm -rf "$parts"
mkdir -p "$parts/completions" "$parts/man"
for shell in bash zsh fish; do
    "$writer" completions "$shell" >"$parts/completions/cairn.$shell"
done
"$writer" man "$parts/man"
gzip -9n "$parts"/man/*.1
"$writer" config schema >"$parts/config.schema.json"

# What Debian calls a changelog: the version and where to read on.
version=$("$writer" -V | sed 's/^cairn //')
{
    printf 'cairn (%s-1) stable; urgency=medium\n\n' "$version"
    printf '  * See /usr/share/doc/cairn/CHANGELOG.md.\n\n'
    printf ' -- The Cairn developers <cairn@example.org>  %s\n' "$(LC_ALL=C date -u '+%a, %d %b %Y %H:%M:%S +0000')"
} >"$parts/changelog"
# This one is looked for there, whatever the target.
if [ -n "$cross" ]; then mkdir -p target/release/package && cp "$parts/changelog" target/release/package/changelog; fi

say "cargo deb"
# What was built for another machine is stripped already, and cannot be by the tools of this one.
cargo deb --package cairn-daemon --no-build --locked ${cross:+--target "$cross" --no-strip} ${output:+--output "$output"}
