#!/bin/sh
# Installs Cairn as a system service by hand, on systems without the Debian package. Each step is said before it is done.
#
#   sudo deploy/install.sh                  installs, or upgrades what is installed
#   deploy/install.sh --dry-run             says the steps and does none
#   sudo deploy/install.sh --uninstall      takes it away again; configuration, secrets and state stay
#
#   --binary FILE     the binary [default: target/release/cairn, else cairn beside this script]
#   --prefix DIR      where the programs go [default: /usr/local]
#   DESTDIR=DIR       puts everything below DIR and touches no running system: for packages and tests
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
prefix=/usr/local
binary=
dry=no
uninstall=no
destdir=${DESTDIR:-}

fail() {
    printf 'error: %s\n' "$1" >&2
    exit "${2:-1}"
}

while [ $# -gt 0 ]; do
    case $1 in
        --binary) [ $# -ge 2 ] || fail "--binary takes a file" 2; binary=$2; shift ;;
        --prefix) [ $# -ge 2 ] || fail "--prefix takes a folder" 2; prefix=$2; shift ;;
        --dry-run) dry=yes ;;
        --uninstall) uninstall=yes ;;
        -h | --help) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0"; exit 0 ;;
        *) fail "unknown option $1; see $0 --help" 2 ;;
    esac
    shift
done
case $prefix in /*) ;; *) fail "--prefix takes a whole path, such as /usr/local" 2 ;; esac

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

# The unit, with the binary where it is.
unit_text() { sed "s#/usr/bin/cairn#$bin#" "$here/cairn.service"; }

is_running_systemd() { [ -z "$destdir" ] && [ -d /run/systemd/system ] && command -v systemctl >/dev/null; }
has_systemd() { [ -n "$destdir" ] || [ -d /run/systemd/system ] || [ -d /etc/systemd/system ]; }

make_user() {
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers /etc/sysusers.d/cairn.conf
        return
    fi
    getent group cairn >/dev/null || groupadd --system cairn
    getent passwd cairn >/dev/null || useradd --system --gid cairn --home-dir / --no-create-home --shell /usr/sbin/nologin cairn
}

bin=$prefix/bin/cairn
share=$prefix/share
unit=/etc/systemd/system/cairn.service
sysusers=/etc/sysusers.d/cairn.conf
config=/etc/cairn/config.toml
bash_completion=$share/bash-completion/completions/cairn
zsh_completion=$share/zsh/site-functions/_cairn
fish_completion=$share/fish/vendor_completions.d/cairn.fish
man=$share/man/man1

if [ "$dry" = no ] && [ -z "$destdir" ] && [ "$(id -u)" != 0 ]; then
    fail "this writes to $prefix and /etc: run it as root (sudo $0), or look first with --dry-run"
fi

uninstall() {
    if is_running_systemd; then
        step "stop the service, which finishes what is under way" systemctl disable --now cairn.service || true
    fi
    step "remove $unit and $sysusers" rm -f "$destdir$unit" "$destdir$sysusers"
    if is_running_systemd; then
        step "have systemd forget the unit" systemctl daemon-reload
    fi
    step "remove $bin" rm -f "$destdir$bin"
    step "remove completions" rm -f "$destdir$bash_completion" "$destdir$zsh_completion" "$destdir$fish_completion"
    step "remove the pages for man" remove_pages
    step "remove $share/cairn" rm -rf "$destdir$share/cairn"
    printf 'Kept: /etc/cairn, the state in /var/lib/cairn, the user and the group cairn, drop-ins of the unit.\n'
}

remove_pages() { rm -f "$destdir$man/cairn.1" "$destdir$man"/cairn-*.1; }

write_pages() {
    mkdir -p "$destdir$man"
    "$binary" man "$destdir$man"
    chmod 644 "$destdir$man"/cairn*.1
}

put_prompts() {
    for prompt in "$here"/../prompts/en/*; do
        put 644 "$prompt" "$destdir$share/cairn/prompts/en/$(basename "$prompt")"
    done
}

if [ "$uninstall" = yes ]; then
    uninstall
    exit 0
fi

if [ -z "$binary" ]; then
    for binary in "$here/../target/release/cairn" "$here/cairn" ""; do
        [ -z "$binary" ] || [ ! -x "$binary" ] || break
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
step "put the prompts to $share/cairn/prompts" put_prompts
step "write the schema for editors to $share/cairn/config.schema.json" \
    print_to "$destdir$share/cairn/config.schema.json" "$binary" config schema
step "put the reference configuration to $share/cairn/config.toml" \
    put 644 "$here/../config/config.toml" "$destdir$share/cairn/config.toml"
if [ -e "$destdir$config" ]; then
    printf '==> keep %s as it is\n' "$config"
else
    step "begin $config with the reference, which is as built in" \
        put 644 "$here/../config/config.toml" "$destdir$config"
fi

if has_systemd; then
    step "name the service's user and group in $sysusers" put 644 "$here/cairn.sysusers" "$destdir$sysusers"
    step "put the unit to $unit" print_to "$destdir$unit" unit_text
    if is_running_systemd; then
        step "make the user and the group cairn" make_user
        step "have systemd read the unit" systemctl daemon-reload
        step "restart the service, if it runs" systemctl try-restart cairn.service
    fi
    cat <<END

Next:
  cairn init                           a first configuration, by a few questions
  cairn doctor                         is all well?
  usermod -aG cairn NAME               who may use the command line of the service
  systemctl enable --now cairn         start it, now and with the system
END
else
    cat <<END

There is no systemd here, so no unit was put. Have your init run this as a user of its own:
  STATE_DIRECTORY=/var/lib/cairn CONFIGURATION_DIRECTORY=/etc/cairn $bin run
END
fi
