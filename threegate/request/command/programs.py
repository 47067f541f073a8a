"""Programs that no request may start, by kind, and how a program is recognized by its name.

The lists cannot be complete and need not be: the protection is that the argv runs without a shell under the
restrictions of docs/spec/6-runners.md. They catch what an agent would write, in any spelling.
"""

from __future__ import annotations

import functools
import re
from typing import Final


def names(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


SHELLS: Final = names(
    """sh bash rbash dash ash hush zsh rzsh ksh ksh93 mksh pdksh rksh lksh csh tcsh fish rc es elvish nu nushell xonsh
    yash oksh posh sash psh pwsh powershell cmd command.com scsh shell
    exec eval command builtin source . alias coproc
    script scriptlive watch parallel sem sql-parallel at batch atd crontab cron anacron run-parts
    screen tmux tmate dtach abduco byobu expect autoexpect unbuffer mc ranger
    ld.so ld-linux ld64.so wsl chsh git-shell rssh lshell ttyd gotty sshd telnetd socat-shell crun-shell"""
)
PRIVILEGE: Final = names(
    """sudo sudoedit sudo-rs su doas runuser pkexec gosu su-exec setuidgid sg newgrp login super calife please
    chroot unshare nsenter setpriv capsh setcap getpcaps pivot_root switch_root runcon aa-exec newuidmap newgidmap
    fakeroot fakechroot start-stop-daemon systemd-run systemctl service systemd-inhibit init telinit reboot shutdown halt poweroff kexec
    useradd usermod userdel adduser deluser groupadd passwd chpasswd visudo vipw
    iptables ip6tables nft nftables sysctl dbus-send busctl gdbus loginctl machinectl polkit chpst chcon setenforce auditctl bpftool bpftrace"""  # noqa: E501
)
CONTAINERS: Final = names(
    """docker dockerd docker-compose docker-init podman podman-compose nerdctl kubectl kubeadm kubelet k3s k0s k9s oc helm minikube kind
    crictl ctr containerd runc crun runsc youki kata-runtime conmon buildah buildctl buildkitd skopeo img kaniko umoci
    lxc lxd lxc-start lxc-attach incus systemd-nspawn bwrap bubblewrap firejail nsjail minijail0 proot
    kvm virsh virt-install virt-manager vboxmanage vboxheadless vagrant multipass firecracker cloud-hypervisor crosvm
    krunvm krun apptainer singularity udocker charliecloud ch-run flatpak-spawn distrobox toolbox toolbx colima lima limactl
    nomad qemu vmrun utm gvisor"""  # noqa: E501
)
INSTALLERS: Final = names(
    """pip pipx uv uvx conda mamba micromamba poetry pipenv pdm hatch rye pixi easy_install virtualenv pyenv asdf mise
    apt apt-get apt-cache aptitude apt-key apt-mark add-apt-repository dpkg dpkg-deb dselect tasksel synaptic
    yum dnf microdnf tdnf rpm rpm-ostree zypper urpmi pacman yay paru makepkg emerge portage apk opkg xbps-install
    eopkg swupd slackpkg pkg pkg_add pkgin brew port snap flatpak nix nix-env nix-shell nix-build guix spack
    npm npx yarn yarnpkg pnpm pnpx bun bunx corepack nvm fnm volta bower jspm
    gem bundle bundler rbenv rvm cpan cpanm cpanp cpm composer pecl pear luarocks opam rustup rustup-init
    tlmgr vcpkg conan nuget helmfile krew sdkman sdk jbang cs coursier ansible ansible-playbook ansible-galaxy
    puppet chef-client salt-call installp stow checkinstall alien gdebi debootstrap"""
)
INSTALLING: Final[dict[str, frozenset[str]]] = {
    "cargo": names("install add binstall update fetch"),
    "go": names("install get"),
    "deno": names("install add"),
    "dotnet": names("add tool restore workload"),
    "cabal": names("install update"),
    "stack": names("install setup upgrade"),
    "mix": names("deps.get archive.install local.hex"),
    "make": names("install"),
    "gmake": names("install"),
    "ninja": names("install"),
    "meson": names("install"),
    "julia-pkg": names("add"),
    "jupyter": names("labextension nbextension serverextension"),
    "code": names("--install-extension"),
    "gh": names("extension"),
    "kubectl-krew": names("install"),
    "cmake": names("--install"),
    "r": names("install"),
}
"""Programs of which only some words install."""
INSTALLING_WORDS: Final = frozenset(word for words in INSTALLING.values() for word in words)
"""Without one of these, no program of `INSTALLING` installs."""
# Names that only a shell can start: no launcher finds such a program, so they are refused as the first word only.
_BUILTINS: Final = names("exec eval command builtin source . alias coproc cmd")
_SHELL_LINE: Final = re.compile(
    r"(?:(?:--?[A-Za-z][A-Za-z-]*=)?(?:[^\s=]*/)?(?:mk|tc|c|a|fi|rba)?|-[A-Za-z](?:/\S*/)?)(?:ba|da|z|k)?sh(?:\s|\Z)"
)

DEVICES: Final = names(
    """mount umount losetup mkfs mkswap swapon swapoff fdisk sfdisk cfdisk gdisk sgdisk cgdisk parted partprobe blkid
    dmsetup cryptsetup lvm mdadm insmod modprobe rmmod kmod depmod mknod fusermount fsck e2fsck tune2fs resize2fs
    debugfs zpool zfs btrfs xfs_repair xfs_admin nbd-client hdparm sdparm nvme smartctl blkdiscard blockdev wipefs
    pvcreate vgcreate lvcreate pvremove vgremove lvremove kpartx multipath iscsiadm eject setserial stty-device sshfs
    ntfs-3g rclone-mount i2cset i2cget flashrom dmidecode usbip mtools udevadm udisksctl gio-mount devlink"""
)

_PREFIXES: Final = {
    prefix: rule
    for rule, prefixes in {
        "TG312": "ld-linux ld-musl ld.so ld64.so",
        "TG314": "docker- podman- qemu- containerd- kata- lxc- virt- vbox kubectl-",
        "TG315": "apt-",
        "TG316": "mkfs. fsck. mount. umount. mkfs- fusermount",
    }.items()
    for prefix in prefixes.split()
}
_ANY_PREFIX: Final = ("ld-", *_PREFIXES)
_NAME_CHARS: Final = 255  # no file name is longer
_TABLES: Final[tuple[tuple[frozenset[str], str], ...]] = (
    (SHELLS, "TG312"),
    (PRIVILEGE, "TG313"),
    (CONTAINERS, "TG314"),
    (INSTALLERS, "TG315"),
    (DEVICES, "TG316"),
)
_BY_NAME: Final = {name: rule for table, rule in _TABLES for name in table}
_SUFFIX: Final = re.compile(r"(?:[-_.](?:static|real|distrib|orig|bin|exe|wrapper|dbg)|[-_.]?v?[0-9][0-9.]*[a-z]?)\Z")
_LOADER: Final = re.compile(r"ld-[0-9.]+\.so")


def base_name(program: str) -> str:
    """The name of a program without folder, and in lower case."""
    return program.rsplit("/", 1)[-1].lower()


def spellings(program: str) -> tuple[str, ...]:
    """The base name, then the name without suffixes such as versions: ``pip3.11`` gives pip3.11 and pip."""
    name = base_name(program)
    return _spellings(name) if len(name) <= _NAME_CHARS else (name,)


@functools.lru_cache(maxsize=4096)  # the words of a line are looked up several times, each with up to three suffixes
def _spellings(name: str) -> tuple[str, ...]:
    found = [name]
    while (shorter := _SUFFIX.sub("", name)) not in ("", name):
        name = shorter
        found.append(name)
    return tuple(found)


def refusal(program: str) -> str | None:
    """The rule that refuses a program by its name alone, or None."""
    found = spellings(program)
    for name in found:
        if (rule := _BY_NAME.get(name)) is not None:
            return rule
    name = found[0]
    if not name.startswith(_ANY_PREFIX):  # nearly always
        return None
    loader = "TG312" if _LOADER.match(name) else None
    return next((rule for prefix, rule in _PREFIXES.items() if name.startswith(prefix)), loader)


def started(word: str) -> str | None:
    """The rule that refuses a word as a program that a launcher may start, or None."""
    return None if base_name(word) in _BUILTINS else refusal(word)


def names_shell(word: str) -> bool:
    """Whether a word, or the value of a long option in it, is a command line of a shell."""
    return "sh" in word and _SHELL_LINE.match(word) is not None
