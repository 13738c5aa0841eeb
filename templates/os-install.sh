#!/bin/sh
# Installs Debian packages where there is nothing but their essential files, and removes what would differ next time.
#
# Reads /tmp/envbuild-os: plan (one action per line), debs/ (the packages). Needs no network and asks no question.
# The same script runs in `envbuild build` and in a Dockerfile build; envbuild/image/os/bootstrap.py writes the plan.
set -euf
umask 022

work=/tmp/envbuild-os
epoch_days=3652 # 1980-01-01 in days since 1970, as /etc/shadow counts

# Nothing of the caller's environment reaches a package's script.
[ "${ENVBUILD_CLEAN:-}" = 1 ] || exec env -i ENVBUILD_CLEAN=1 /bin/sh "$0"

export PATH="$work/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export HOME=/root LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=315532800 FORCE_SOURCE_DATE=1
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true DEBCONF_NOWARNINGS=yes
# Perl and Python order their hashes at random otherwise.
export PERL_HASH_SEED=0 PERL_PERTURB_KEYS=0 PYTHONHASHSEED=0

prepare() {
    # No service starts (policy-rc.d), and scripts know that this is no running system: libc6 would restart init.
    mkdir -p "$work/bin" /usr/sbin
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    printf '#!/bin/sh\nexit 0\n' >"$work/bin/ischroot"
    chmod 755 /usr/sbin/policy-rc.d "$work/bin/ischroot"
    # Engines bind the host's name servers over this file; a script may copy it. Some builders let nobody write it.
    (: >/etc/resolv.conf) 2>/dev/null || true
    # dpkg syncs this folder to disk some fifteen times per package; nothing here survives a failure anyway.
    memory=$(mktemp -d /dev/shm/envbuild.XXXXXX 2>/dev/null) || memory=
    if [ -n "$memory" ]; then
        rm -rf /var/lib/dpkg/updates
        ln -s "$memory" /var/lib/dpkg/updates
    fi
}

act() {
    verb=$1
    shift
    case $verb in
    bootstrap) for file; do dpkg --force-unsafe-io --force-depends --install "$file" 2>&1; done ;;
    force) dpkg --force-unsafe-io --force-depends --unpack "$@" 2>&1 ;;
    unpack) dpkg --force-unsafe-io --unpack "$@" 2>&1 ;;
    configure)
        [ $# -gt 0 ] || set -- -a
        dpkg --force-unsafe-io --configure "$@" 2>&1
        ;;
    *) echo "unknown action: $verb" && exit 2 ;;
    esac
}

# dpkg names what fails; the rest is noise, kept for the case of failure. It goes on behind a full disk, and makes room.
install_packages() {
    cd "$work/debs"
    while read -r verb words; do
        # shellcheck disable=SC2086 # words are file and package names without blanks, globbing is off
        act "$verb" $words >"$work/log" || {
            grep -i -e 'no space left on device' -e 'quota exceeded' "$work/log" | head -n 3
            grep -v -e '^Selecting ' -e '^(Reading ' -e '^Preparing ' -e 'pre-dependency' "$work/log" | tail -n 60
            exit 1
        }
    done <"$work/plan"
    cd /
    audit=$(dpkg --audit)
    [ -z "$audit" ] || { echo "dpkg: error: packages are not fully installed: $audit"; exit 1; }
}

# Java's store of certificates (JKS) holds when each entry was made, and a digest over all: SHA-1 of the password in UTF-16,
# "Mighty Aphrodite" and the rest. One of another kind or with another password stays as it is.
clamp_keystore() {
    [ ! -f "$1" ] || perl -e '
        my ($path, $scratch) = @ARGV;
        sub slurp { open my $file, "<:raw", $_[0] or die; local $/; return <$file> }
        sub spill { open my $file, ">:raw", $_[0] or die; print $file $_[1]; close $file or die }
        sub seal { spill($scratch, "\0" . join("\0", split(//, "changeit")) . "Mighty Aphrodite" . $_[0]);
            return pack("H40", `sha1sum $scratch`) }
        my $data = slurp($path);
        my $sum = substr($data, -20, 20, "");
        my ($magic, $version, $count) = unpack("N3", $data);
        exit unless $magic == 0xFEEDFEED && $version == 2 && $sum eq seal($data);
        my $at = 12;
        for (1 .. $count) {
            exit unless unpack("N", substr($data, $at, 4)) == 2; # a trusted certificate
            $at += 6 + unpack("n", substr($data, $at + 4, 2));
            substr($data, $at, 8) = pack("N2", int(315532800000 / 2**32), 315532800000 % 2**32);
            $at += 10 + unpack("n", substr($data, $at + 8, 2));
            $at += 4 + unpack("N", substr($data, $at, 4));
        }
        spill($path, $data . seal($data));
    ' "$1" "$work/keystore"
}

clean() {
    clamp_keystore /etc/ssl/certs/java/cacerts
    rm -f /usr/sbin/policy-rc.d
    if [ -n "$memory" ]; then
        rm -rf /var/lib/dpkg/updates "$memory"
        mkdir /var/lib/dpkg/updates
    fi
    # Logs and caches that hold times, inode numbers or the machine's name.
    find /var/log -type f \( -name dpkg.log -o -name alternatives.log -o -name fontconfig.log \) -exec rm -f {} +
    find /var/log -type f -size +0 -exec truncate -s 0 {} +
    if [ -d /var/lib/texmf ]; then
        find /var/lib/texmf -name '*.log' -exec rm -f {} +
        # pdfTeX and XeTeX heed FORCE_SOURCE_DATE. Other engines dump the minute, LuaTeX also tables in the order of random
        # hashes; mktexfmt makes those formats for the user when they are first asked for.
        find /var/lib/texmf -name '*.fmt' ! -path '*/pdftex/*' ! -path '*/xetex/*' -exec rm -f {} +
    fi
    rm -f /var/cache/ldconfig/aux-cache /etc/apt/apt.conf.d/01autoremove-kernels /var/lib/systemd/random-seed
    rm -f /var/lib/dpkg/lock /var/lib/dpkg/lock-frontend /var/lib/dpkg/triggers/Lock /etc/.pwd.lock
    for folder in /var/cache/debconf /var/lib/dpkg; do
        find "$folder" -maxdepth 1 -type f -name '*-old' -exec rm -f {} +
    done
    for folder in /var/cache/fontconfig /var/cache/apt /var/lib/apt/lists; do
        [ ! -d "$folder" ] || find "$folder" -type f -exec rm -f {} +
    done
    # Backups of the user database, and its days of the last password change.
    rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-
    if [ -f /etc/shadow ]; then
        sed -i -E "s/^([^:]*:[^:]*):[0-9]+:/\1:$epoch_days:/" /etc/shadow
    fi
    # Identities and keys that must be a machine's own.
    : >/etc/machine-id
    rm -f /var/lib/dbus/machine-id
    [ ! -d /etc/ssh ] || find /etc/ssh -name 'ssh_host_*' -exec rm -f {} +
    [ ! -d /etc/ssl ] || find /etc/ssl \( -name '*snakeoil*' -o -lname '*snakeoil*' \) -exec rm -f {} +
    # What lives only while a machine runs. Mount points cannot be removed and are skipped.
    find /run /tmp /var/tmp -xdev -mindepth 1 -delete 2>/dev/null || true
    mkdir -p /run/lock
    chmod 1777 /run/lock
}

prepare
install_packages
clean
