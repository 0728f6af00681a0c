#!/bin/sh
# Installs, upgrades or removes Cairn. `sh install.sh --help` says how. POSIX sh, without anything that a bare system lacks.
set -eu

usage() {
    cat <<'END'
Installs Cairn, or upgrades what is installed. Each step is printed before it is done.

  sh install.sh                         for you alone, to ~/.local; as root for the system, to /usr/local
  sh install.sh --service user          and starts a service that runs as you
  sudo sh install.sh --service system   and starts the service of the system
  sh install.sh --dry-run               prints the steps and does none
  sh install.sh --uninstall             removes it; configuration, secrets and state stay

  --from WHERE      the release: a folder, or the http(s) address of one. It has SHA256SUMS, and what is fetched must match it.
                    Without it the files beside this script are installed (an unpacked archive, or the source)
  --binary FILE     the binary [default: that of the release; of the source, target/release/cairn]
  --service KIND    user, system or none [default: the system's unit is put in place by root, and not started]
  --prefix DIR      where the programs go [default: ~/.local; /usr/local as root]

  CAIRN_RELEASES=WHERE  the same as --from
  DESTDIR=DIR           puts everything below DIR and touches no running system: for packages and tests
END
}

fail() {
    printf 'error: %s\n' "$1" >&2
    exit "${2:-1}"
}

# From a pipe there is no folder of the script, and what lies around is none of the release.
here=/nonexistent
if [ -f "$0" ]; then here=$(cd "$(dirname "$0")" && pwd -P); fi
prefix=
binary=
dry=no
uninstall=no
service=
destdir=${DESTDIR:-}
from=${CAIRN_RELEASES:-}
work=

while [ $# -gt 0 ]; do
    case $1 in
        --binary) [ $# -ge 2 ] || fail "--binary takes a file" 2; binary=$2; shift ;;
        --prefix) [ $# -ge 2 ] || fail "--prefix takes a folder" 2; prefix=$2; shift ;;
        --from) [ $# -ge 2 ] || fail "--from takes a folder or an address" 2; from=$2; shift ;;
        --service) [ $# -ge 2 ] || fail "--service takes user, system or none" 2; service=$2; shift ;;
        --dry-run) dry=yes ;;
        --uninstall) uninstall=yes ;;
        -h | --help) usage; exit 0 ;;
        *) fail "unknown option $1; see --help" 2 ;;
    esac
    shift
done

# For the system, or for one user?
scope=system
if [ -z "$destdir" ] && [ "$(id -u)" != 0 ]; then scope=user; fi
if [ "$scope" = user ] && [ -z "${HOME:-}" ]; then fail "\$HOME is not set"; fi
case $service in
    '' | none) ;;
    user) [ "$scope" = user ] || fail "--service user is for one user: run this without root" 2 ;;
    system) [ "$scope" = system ] || fail "--service system needs root: sudo sh install.sh --service system" 2 ;;
    *) fail "--service takes user, system or none" 2 ;;
esac
if [ -z "$prefix" ]; then
    if [ "$scope" = user ]; then prefix=$HOME/.local; else prefix=/usr/local; fi
fi
case $prefix in /*) ;; *) fail "--prefix takes a whole path, such as /usr/local" 2 ;; esac
# The units hold this path, and systemd would read some characters in it otherwise.
case $prefix in *[!A-Za-z0-9/._+-]*) fail "--prefix $prefix: use letters, digits and . _ + - alone" 2 ;; esac

bin=$prefix/bin/cairn
share=$prefix/share
bash_completion=$share/bash-completion/completions/cairn
zsh_completion=$share/zsh/site-functions/_cairn
fish_completion=$share/fish/vendor_completions.d/cairn.fish
man=$share/man/man1
config=/etc/cairn/config.toml
sysusers=/etc/sysusers.d/cairn.conf
if [ "$scope" = user ]; then
    # ~/.local/share/cairn is the state.
    files=$share/doc/cairn
    unit=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/cairn.service
else
    files=$share/cairn
    unit=/etc/systemd/system/cairn.service
fi

if [ "$dry" = no ] && [ "$scope" = user ]; then
    parent=$prefix
    while [ ! -e "$parent" ]; do parent=$(dirname "$parent"); done
    [ -w "$parent" ] || fail "you may not write to $prefix: run this as root (sudo), or name another folder by --prefix"
fi

# Says a step and does it.
step() {
    said=$1
    shift
    printf '==> %s\n' "$said"
    if [ "$dry" = no ]; then "$@"; fi
}

# Puts a file in its place with that mode: whole or not at all, also while the old one is in use.
put() {
    mkdir -p "$(dirname "$3")"
    cp "$2" "$3.new"
    chmod "$1" "$3.new"
    mv -f "$3.new" "$3"
}

# The same with what a command prints.
print_to() {
    out=$1
    shift
    mkdir -p "$(dirname "$out")"
    "$@" >"$out.new"
    chmod 644 "$out.new"
    mv -f "$out.new" "$out"
}

# systemctl, of the system or of this user.
ctl() {
    if [ "$scope" = user ]; then systemctl --user "$@"; else systemctl "$@"; fi
}

is_running_systemd() {
    [ -z "$destdir" ] && command -v systemctl >/dev/null || return 1
    if [ "$scope" = user ]; then [ -d "${XDG_RUNTIME_DIR:-/nonexistent}/systemd" ]; else [ -d /run/systemd/system ]; fi
}

# Those that were put there, and no folder that has others: a state may be in it.
remove_files() {
    rm -f "$destdir$files/config.toml" "$destdir$files/config.schema.json" "$destdir$files"/prompts/en/*.j2
    rmdir "$destdir$files/prompts/en" "$destdir$files/prompts" "$destdir$files" 2>/dev/null || true
}

remove_pages() { rm -f "$destdir$man/cairn.1" "$destdir$man"/cairn-*.1; }

uninstall() {
    if [ -e "$destdir$unit" ] && is_running_systemd; then
        step "stop the service, which finishes what is under way" ctl disable --now cairn.service || true
    fi
    if [ "$scope" = user ]; then
        step "remove $unit" rm -f "$unit"
    else
        step "remove $unit and $sysusers" rm -f "$destdir$unit" "$destdir$sysusers"
    fi
    if is_running_systemd; then
        step "have systemd forget the unit" ctl daemon-reload
    fi
    step "remove $bin" rm -f "$destdir$bin"
    step "remove completions" rm -f "$destdir$bash_completion" "$destdir$zsh_completion" "$destdir$fish_completion"
    step "remove the pages for man" remove_pages
    step "remove the files in $files" remove_files
    if [ "$scope" = user ]; then
        printf 'Kept: ~/.config/cairn, and the state in ~/.local/share/cairn.\n'
    else
        printf 'Kept: /etc/cairn, the state in /var/lib/cairn, the user and the group cairn, drop-ins of the unit.\n'
    fi
}

# Fetches a file of the release.
fetch() {
    case $from in
        http://* | https://*)
            if command -v curl >/dev/null; then
                curl -fsSL --retry 2 -o "$2" "${from%/}/$1"
            elif command -v wget >/dev/null; then
                wget -q -O "$2" "${from%/}/$1"
            else
                fail "curl or wget is needed to fetch $from; or copy the folder here and name it by --from"
            fi
            ;;
        *) cp "${from#file://}/$1" "$2" ;;
    esac || fail "cannot fetch $1 from $from"
}

sum_of() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1"
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1"
    else
        fail "sha256sum is needed to check what was fetched"
    fi | cut -d ' ' -f 1
}

# Fetches the archive for this machine, checks it and unpacks it. Nothing is installed from one whose sum is wrong.
unpack() {
    case $(uname -s)-$(uname -m) in
        Linux-x86_64 | Linux-amd64) target=x86_64-unknown-linux-musl ;;
        Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
        *) fail "there is no binary for $(uname -s) on $(uname -m): build it from the source" ;;
    esac
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
    fetch SHA256SUMS "$work/SHA256SUMS"
    archive=
    wanted=
    while read -r sum name; do
        name=${name#\*}
        case $name in
            */*) ;;
            cairn-*-"$target".tar.gz)
                [ -z "$archive" ] || fail "$from has several versions: name the folder of one"
                archive=$name
                wanted=$sum
                ;;
        esac
    done <"$work/SHA256SUMS"
    [ -n "$archive" ] || fail "$from has no archive for $target"
    printf '==> fetch %s from %s\n' "$archive" "$from"
    fetch "$archive" "$work/$archive"
    found=$(sum_of "$work/$archive")
    [ -n "$found" ] || exit 1
    if [ "$found" != "$wanted" ]; then
        fail "$archive is not what SHA256SUMS says (it is $found, not $wanted): nothing was installed"
    fi
    tar -xzf "$work/$archive" -C "$work" || fail "cannot unpack $archive (tar and gzip are needed)"
    tree=$work/${archive%.tar.gz}
    [ -n "$binary" ] || binary=$tree/cairn
}

make_user() {
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers /etc/sysusers.d/cairn.conf
        return
    fi
    getent group cairn >/dev/null || groupadd --system cairn
    getent passwd cairn >/dev/null || useradd --system --gid cairn --home-dir / --no-create-home --shell /usr/sbin/nologin cairn
}

write_pages() {
    mkdir -p "$destdir$man"
    "$binary" man "$destdir$man"
    chmod 644 "$destdir$man"/cairn*.1
}

put_prompts() {
    for prompt in "$tree"/prompts/en/*; do
        put 644 "$prompt" "$destdir$files/prompts/en/$(basename "$prompt")"
    done
}

# The unit, with the binary where it is.
unit_text() { sed "s#/usr/bin/cairn#$bin#" "$tree/deploy/$1"; }

service_of_the_system() {
    step "name the service's user and group in $sysusers" put 644 "$tree/deploy/cairn.sysusers" "$destdir$sysusers"
    step "put the unit to $unit" print_to "$destdir$unit" unit_text cairn.service
    if is_running_systemd; then
        step "make the user and the group cairn" make_user
        step "have systemd read the unit" ctl daemon-reload
        if [ "$service" = system ]; then
            step "start the service, now and with the system" ctl enable cairn.service
            step "restart the service" ctl restart cairn.service
        else
            step "restart the service, if it runs" ctl try-restart cairn.service
        fi
    elif [ "$service" = system ] && [ -z "$destdir" ]; then
        fail "systemd does not run here: the unit is in place, and was not started"
    fi
    cat <<END

Next:
  cairn init                           a first configuration, by a few questions
  cairn doctor                         is all well?
  usermod -aG cairn NAME               who may use the command line of the service
  systemctl enable --now cairn         start it, now and with the system
END
}

service_of_the_user() {
    # `cairn init` may have written it, for a configuration elsewhere.
    if [ -e "$unit" ]; then
        printf '==> keep %s as it is\n' "$unit"
    else
        step "put the unit to $unit" print_to "$unit" unit_text cairn-user.service
    fi
    is_running_systemd || fail "no systemd of yours runs here: the unit is in place, and was not started"
    step "have systemd read the unit" ctl daemon-reload
    step "start the service, now and when you log in" ctl enable cairn.service
    step "restart the service" ctl restart cairn.service
}

# Called in the last line: of a script that was fetched in part, nothing is done.
main() {
    if [ "$uninstall" = yes ]; then
        uninstall
        exit 0
    fi

    tree=$here/..
    if [ -n "$from" ]; then
        unpack
    elif [ ! -f "$tree/config/config.toml" ] || [ ! -f "$tree/deploy/cairn.service" ]; then
        fail "say where the release is: CAIRN_RELEASES=FOLDER-OR-ADDRESS sh install.sh" 2
    fi
    if [ -z "$binary" ]; then
        for binary in "$tree/cairn" "$tree/target/release/cairn" "$here/cairn" ""; do
            [ -z "$binary" ] || [ ! -f "$binary" ] || [ ! -x "$binary" ] || break
        done
        [ -n "$binary" ] || fail "there is no binary: cargo build --release makes it, or name one by --binary"
    fi
    if [ ! -f "$binary" ] || [ ! -x "$binary" ]; then fail "$binary is not a program; name another by --binary"; fi
    "$binary" --version >/dev/null || fail "$binary does not run on this system"

    step "put the binary to $bin" put 755 "$binary" "$destdir$bin"
    step "write completions for bash" print_to "$destdir$bash_completion" "$binary" completions bash
    step "write completions for zsh" print_to "$destdir$zsh_completion" "$binary" completions zsh
    step "write completions for fish" print_to "$destdir$fish_completion" "$binary" completions fish
    step "write the pages for man to $man" write_pages
    step "put the prompts to $files/prompts" put_prompts
    step "write the schema for editors to $files/config.schema.json" \
        print_to "$destdir$files/config.schema.json" "$binary" config schema
    step "put the reference configuration to $files/config.toml" \
        put 644 "$tree/config/config.toml" "$destdir$files/config.toml"

    if [ "$scope" = user ]; then
        if [ "$service" = user ]; then
            service_of_the_user
        elif [ -e "$unit" ] && is_running_systemd; then
            step "restart the service, if it runs" ctl try-restart cairn.service
        fi
        case :${PATH:-}: in
            *:"$prefix/bin":*) ;;
            *) printf '\n%s is not in your PATH: add it, or write %s\n' "$prefix/bin" "$bin" ;;
        esac
        printf '\nNext:\n  cairn init       a first configuration, by a few questions\n  cairn doctor     is all well?\n'
        exit 0
    fi

    if [ -e "$destdir$config" ]; then
        printf '==> keep %s as it is\n' "$config"
    else
        step "begin $config with the reference, which is as built in" put 644 "$tree/config/config.toml" "$destdir$config"
    fi
    if [ "$service" != none ] && { [ -n "$destdir" ] || [ -d /run/systemd/system ] || [ -d /etc/systemd/system ]; }; then
        service_of_the_system
    else
        [ "$service" != system ] || fail "there is no systemd here: no service was set up"
        cat <<END

No unit was put. Have your init run this as a user of its own:
  STATE_DIRECTORY=/var/lib/cairn CONFIGURATION_DIRECTORY=/etc/cairn $bin run
END
    fi
}

main
