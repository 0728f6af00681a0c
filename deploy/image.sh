#!/bin/sh
# Makes an image of static binaries, without a daemon and without root: a tar file in the layout of OCI, the same bytes for the
# same binaries.
#
#   deploy/image.sh amd64=target/static/cairn-x86_64 arm64=target/static/cairn-aarch64
#   podman load -i target/cairn-image.tar
#   skopeo copy --all oci-archive:target/cairn-image.tar docker://registry.example.org/cairn:latest
#
#   --output FILE           where it goes [default: target/cairn-image.tar]
#   SOURCE_DATE_EPOCH=SECS  the time of everything in it [default: that of the commit]
#
# It holds the program, the prompts, a user without rights (10001), and the folders of deploy/Containerfile; how it is run is
# said there. Needs GNU tar and gzip.
set -eu

fail() {
    printf 'error: %s\n' "$1" >&2
    exit "${2:-1}"
}

source=$(cd "$(dirname "$0")/.." && pwd -P)
output=$source/target/cairn-image.tar
binaries=
while [ $# -gt 0 ]; do
    case $1 in
        --output) [ $# -ge 2 ] || fail "--output takes a file" 2; output=$2; shift ;;
        -h | --help) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0"; exit 0 ;;
        amd64=* | arm64=*) binaries="$binaries $1" ;;
        *) fail "unknown argument $1; name binaries as amd64=FILE or arm64=FILE" 2 ;;
    esac
    shift
done
[ -n "$binaries" ] || fail "name at least one binary, such as amd64=target/static/cairn-x86_64" 2
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$source/Cargo.toml")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blobs=$work/layout/blobs/sha256
mkdir -p "$blobs"

# Puts a file among the blobs and prints its digest and size, as JSON.
blob() {
    sum=$(sha256sum "$1" | cut -d ' ' -f 1)
    size=$(wc -c <"$1")
    mv "$1" "$blobs/$sum"
    printf '"digest": "sha256:%s", "size": %d' "$sum" "$size"
}

# Adds to the layer, whoever runs this: the owner in the image, then the paths.
add() {
    owner=$1
    shift
    tar --append --file "$work/layer.tar" --directory "$work/root" --format=gnu --sort=name --mtime="@$epoch" \
        --owner="$owner" --group="$owner" --numeric-owner --no-recursion "$@"
}

manifests=
for named in $binaries; do
    arch=${named%%=*}
    binary=${named#*=}
    [ -f "$binary" ] || fail "there is no $binary"
    # There are no libraries in the image.
    if head -c 4096 "$binary" | LC_ALL=C grep -aq '/ld-'; then fail "$binary is not static: deploy/static.sh makes one that is"; fi

    root=$work/root
    rm -rf "$root" "$work/layer.tar"
    mkdir -p "$root/usr/bin" "$root/usr/share/cairn/prompts" "$root/usr/share/doc/cairn" "$root/etc/cairn" \
        "$root/var/lib/cairn" "$root/run/secrets" "$root/tmp"
    cp "$binary" "$root/usr/bin/cairn"
    cp -R "$source/prompts/." "$root/usr/share/cairn/prompts/"
    cp "$source/config/config.toml" "$root/usr/share/doc/cairn/config.toml"
    printf 'root:x:0:0::/:/sbin/nologin\ncairn:x:10001:10001::/var/lib/cairn:/sbin/nologin\n' >"$root/etc/passwd"
    printf 'root:x:0:\ncairn:x:10001:\n' >"$root/etc/group"
    find "$root" -type d -exec chmod 755 {} +
    find "$root" -type f -exec chmod 644 {} +
    chmod 755 "$root/usr/bin/cairn"
    chmod 700 "$root/var/lib/cairn" "$root/etc/cairn"
    chmod 1777 "$root/tmp"
    tar --create --file "$work/layer.tar" --files-from /dev/null
    (cd "$root" && find . -mindepth 1 ! -path ./var/lib/cairn ! -path ./etc/cairn | LC_ALL=C sort | sed 's#^\./##') >"$work/paths"
    add 0 --files-from "$work/paths"
    add 10001 etc/cairn var/lib/cairn
    diff_id=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
    gzip -9n "$work/layer.tar"
    layer=$(blob "$work/layer.tar.gz")

    cat >"$work/config.json" <<JSON
{"created": "$created", "architecture": "$arch", "os": "linux",
 "config": {
  "User": "10001:10001", "WorkingDir": "/var/lib/cairn", "Volumes": {"/etc/cairn": {}, "/var/lib/cairn": {}}, "StopSignal": "SIGTERM",
  "Entrypoint": ["/usr/bin/cairn"], "Cmd": ["run"],
  "Env": ["PATH=/usr/bin", "HOME=/var/lib/cairn", "CONFIGURATION_DIRECTORY=/etc/cairn", "STATE_DIRECTORY=/var/lib/cairn",
   "CREDENTIALS_DIRECTORY=/run/secrets"],
  "Healthcheck": {"Test": ["CMD", "cairn", "status"], "Interval": 60000000000, "Timeout": 10000000000,
   "StartPeriod": 60000000000, "Retries": 3},
  "Labels": {"org.opencontainers.image.title": "cairn", "org.opencontainers.image.version": "$version",
   "org.opencontainers.image.licenses": "MIT OR Apache-2.0"}},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$diff_id"]},
 "history": [{"created": "$created", "created_by": "deploy/image.sh"}]}
JSON
    config=$(blob "$work/config.json")
    cat >"$work/manifest.json" <<JSON
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
 "config": {"mediaType": "application/vnd.oci.image.config.v1+json", $config},
 "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", $layer}]}
JSON
    manifest=$(blob "$work/manifest.json")
    manifests="$manifests${manifests:+, }{\"mediaType\": \"application/vnd.oci.image.manifest.v1+json\", $manifest,
   \"platform\": {\"architecture\": \"$arch\", \"os\": \"linux\"}}"
done

# One entry, as tools expect it that load an archive; it leads to the image for each machine.
cat >"$work/index.json" <<JSON
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [$manifests]}
JSON
index=$(blob "$work/index.json")
cat >"$work/layout/index.json" <<JSON
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
  {"mediaType": "application/vnd.oci.image.index.v1+json", $index,
   "annotations": {"org.opencontainers.image.ref.name": "cairn:$version"}}]}
JSON
printf '{"imageLayoutVersion": "1.0.0"}' >"$work/layout/oci-layout"
mkdir -p "$(dirname "$output")"
tar --create --file "$output" --directory "$work/layout" --format=gnu --sort=name --mtime="@$epoch" --owner=0 --group=0 \
    --numeric-owner --mode=u=rwX,go=rX oci-layout index.json blobs
printf '==> %s\n' "$output"
