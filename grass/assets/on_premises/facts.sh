# What Grass wants to know of a machine, in one go: sections "@name", then lines. Changes nothing. POSIX sh, run as root.
# $1: name of the cluster
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
say() { printf '@%s\n' "$1"; }
have() { command -v "$1" >/dev/null 2>&1; }
say user; id -u; id -un
say hostname; uname -n
say machine; uname -m
say kernel; uname -r
say os; cat /etc/os-release 2>/dev/null
say libc; (getconf GNU_LIBC_VERSION || ldd --version 2>&1 | head -n 1) 2>/dev/null
say pythons
for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
  have "$python" || continue
  "$python" -c 'import sys; print(*sys.version_info[:3], sys.implementation.name, sys.executable)' 2>/dev/null
done
say pid1; cat /proc/1/comm 2>/dev/null
say systemd; have systemctl && systemctl --version | head -n 1
say packager; for name in apt-get dnf yum zypper apk pacman; do have "$name" && echo "$name"; done
say programs
for name in redis-server valkey-server smbd smbpasswd docker rclone mount.cifs fusermount3 fusermount fluentd fluent-bit \
  td-agent fluent-package /opt/fluent/bin/fluentd /opt/td-agent/bin/fluentd /usr/sbin/fluentd /usr/sbin/td-agent sudo tar rsync ss bwrap; do
  have "$name" && printf '%s %s\n' "$name" "$(command -v "$name")"
done
say redis # those with TLS
for name in redis-server valkey-server; do
  have "$name" && ldd "$(command -v "$name")" 2>/dev/null | grep -q libssl && echo "$(command -v "$name") $("$name" --version)"
done
say docker # an engine that starts when it is needed is there; to ask it for its version would start it
if [ "$(systemctl is-active docker.socket docker.service 2>/dev/null | tr '\n' ' ')" = 'active inactive ' ]; then
  have docker && dockerd --version 2>/dev/null | sed -n 's/.* version \([^, ]*\).*/\1/p'
else have docker && timeout 5 docker version --format '{{.Server.Version}}' 2>/dev/null; fi
say cifs; grep -w cifs /proc/filesystems; { have modprobe && modprobe --dry-run cifs 2>/dev/null && echo modprobe; }
say fuse; ls /dev/fuse 2>/dev/null
say memory; sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo
say cpus; getconf _NPROCESSORS_ONLN
say gpus
if [ ! -e /dev/dxg ] && [ ! -e /dev/nvmap ]; then # WSL and Tegra: there only the driver knows
  ls -d /dev/nvidia[0-9]* 2>/dev/null | wc -l
  ls -d /proc/driver/nvidia/gpus/* 2>/dev/null | wc -l
  for device in /sys/bus/pci/devices/*; do
    case "$(cat "$device/vendor" "$device/class" 2>/dev/null | tr '\n' ' ')" in "0x10de 0x03"*) echo "$device" ;; esac
  done | wc -l
fi
say disk; df -Pk /opt /var/lib /srv 2>/dev/null | sed 1d
say addresses; ip -o addr show scope global 2>/dev/null | while read -r _ device _ address _; do echo "$device $address"; done
say listening; have ss && ss -H -l -t -n -p 2>/dev/null
say time; date +%s
say users; id -u grass 2>/dev/null
say groups; id -nG grass 2>/dev/null
say packages # those of the host's owner, or of an earlier cluster
set_of="redis-server redis samba python3 rsync rclone fuse3 cifs-utils bubblewrap docker.io docker-cli docker"
# shellcheck disable=SC2086
if have dpkg-query; then dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' $set_of 2>/dev/null | sed -n 's/^ii *//p'
elif have rpm; then rpm -q --queryformat '%{NAME}\n' $set_of 2>/dev/null | grep -v ' '; fi
say folders # that somebody else made: an interrupted installation leaves an empty one
for path in /etc/grass /srv/grass /var/lib/grass; do
  [ -n "$(ls -A "$path" 2>/dev/null | grep -vxE 'installed|lost\+found')" ] && stat -c '%n %a %u:%g' "$path"
done
say accounts; getent passwd
say subuids; cat /etc/subuid 2>/dev/null
say paths
share="/srv/grass/$1"
if grep -qsE " $share (cifs|fuse[^ ]*) " /proc/self/mounts; then echo "$share"; share= # of a master that may be away: a look would hang
fi
for path in /opt/grass /etc/grass /var/lib/grass /var/lib/grass/installed /var/lib/grass/clusters /run/grass /srv/grass \
  /var/lib/grass/.ssh ${share:+"$share" "$share/data" "$share/logs" "$share/images" "$share/jobs"} \
  /usr/local/bin/grass "/var/lib/grass/clusters/$1/tls/ca.key" "/var/lib/grass/clusters/$1/tls/ca.pem" \
  "/var/lib/grass/clusters/$1/replaced-by"; do
  { [ -e "$path" ] || [ -L "$path" ]; } && echo "$path"
done
say units; ls -d /etc/systemd/system/grass* 2>/dev/null
say venv; cat /opt/grass/venv/bundle 2>/dev/null
say server; sed -n 's/^REDIS_SERVER=//p' "/etc/grass/$1.env" 2>/dev/null
say config; cat "/var/lib/grass/clusters/$1/cluster.json" 2>/dev/null
for record in /var/lib/grass/installed/*.json; do
  [ -f "$record" ] || continue
  say "record $(basename "$record" .json)"; cat "$record"; echo
done
say end
