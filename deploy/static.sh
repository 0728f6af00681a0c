#!/bin/sh
# Builds binaries that need no library of the system they run on: for x86-64 and arm64, linked statically with musl.
#
#   deploy/static.sh                            both, to target/static
#   deploy/static.sh aarch64-unknown-linux-musl one
#
# Needs Rust's standard library for the target (rustup target add TARGET), cargo-zigbuild (cargo install cargo-zigbuild) and
# zig (pip install ziglang), which compiles and links for each of them on any machine. deploy/image.sh makes an image of them.
set -eu
cd "$(dirname "$0")/.."

say() { printf '==> %s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

case ${1:-} in -h | --help) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0"; exit 0 ;; esac
[ $# -gt 0 ] || set -- x86_64-unknown-linux-musl aarch64-unknown-linux-musl

command -v cargo-zigbuild >/dev/null || fail "cargo-zigbuild is missing: cargo install cargo-zigbuild"
command -v zig >/dev/null || python3 -c 'import ziglang' 2>/dev/null || fail "zig is missing: pip install ziglang"
for target; do
    case $target in *-linux-musl*) ;; *) fail "$target is no target of musl, so it is not static" ;; esac
    [ -d "$(rustc --print target-libdir --target "$target")" ] ||
        fail "Rust's standard library for $target is missing: rustup target add $target"
done

# The same source makes the same bytes: no path of this machine, no time but that of the commit.
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"

out=target/static
mkdir -p "$out"
for target; do
    say "cargo zigbuild for $target"
    cargo zigbuild --profile dist --locked --package cairn-daemon --target "$target"
    arch=${target%%-*}
    binary=$out/cairn-$arch
    cp "${CARGO_TARGET_DIR:-target}/$target/dist/cairn" "$binary"
    # The name of a dynamic linker stands at the beginning of each program that needs one.
    if head -c 4096 "$binary" | LC_ALL=C grep -aq '/ld-'; then fail "$binary is not static"; fi
    # Elsewhere than at home it runs where the system has an emulator for it.
    if [ "$arch" = "$(uname -m)" ]; then
        "$binary" --version
    elif command -v "qemu-$arch-static" >/dev/null; then
        "qemu-$arch-static" "$binary" --version
    else
        say "$binary is for another machine and was not tried"
    fi
done
(cd "$out" && sha256sum cairn-* | tee SHA256SUMS)
