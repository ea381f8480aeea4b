#!/bin/bash
# Build what a virtual machine of tests/vm boots, into FOLDER: kernel, initrd, a disk with Debian 12.
#
#   tests/vm/build_image.sh FOLDER
#
# Needs root, the network, and:
#   apt-get install mmdebstrap qemu-system-x86 busybox-static cpio e2fsprogs kmod
# The project is not in it: each machine gets it, as it is then, on a second disk.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"

tree=$PWD/tree
rm -rf "$tree" debs kernel initrd
mmdebstrap --variant=minbase --include=systemd,systemd-sysv,dbus,python3,procps,kmod \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$tree"

mkdir debs kernel initrd
chmod 777 debs # apt downloads as a user of its own
package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2}')
(cd debs && apt-get download "$package")
dpkg-deb -x debs/*.deb kernel
version=$(ls kernel/lib/modules)
cp "kernel/boot/vmlinuz-$version" vmlinuz

# The agent listens on the second serial line from early on, with the project on the second disk.
mkdir -p "$tree/opt/project" "$tree/etc/systemd/system/sysinit.target.wants"
cat > "$tree/etc/systemd/system/agent.service" <<'UNIT'
[Unit]
DefaultDependencies=no
After=local-fs.target
[Service]
# Not by fstab: there is no udev to tell that the disk is there.
ExecStartPre=sh -c 'mountpoint -q /opt/project || mount -o ro /dev/vdb /opt/project'
ExecStart=/usr/bin/python3 -P -m tests.vm.agent /dev/ttyS1
Environment=PYTHONPATH=/opt/project:/opt/project/site PYTHONDONTWRITEBYTECODE=1
Restart=always
IgnoreSIGPIPE=no
UNIT
ln -s ../agent.service "$tree/etc/systemd/system/sysinit.target.wants/agent.service"
for unit in systemd-timesyncd.service getty.target apt-daily.timer apt-daily-upgrade.timer \
  dpkg-db-backup.timer e2scrub_all.timer fstrim.timer serial-getty@ttyS0.service; do
  ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done
echo guest > "$tree/etc/hostname"
echo '/dev/vda / ext4 rw 0 1' > "$tree/etc/fstab"
echo 0123456789abcdef0123456789abcdef > "$tree/etc/machine-id"
rm -f disk.ext4
mke2fs -q -t ext4 -d "$tree" -r 1 disk.ext4 1200M

# The initrd only loads the drivers of the disks.
drivers="virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk"
mkdir -p initrd/bin initrd/dev initrd/proc initrd/new
cp /bin/busybox initrd/bin/
for driver in $drivers; do cp "$(find kernel/lib/modules -name "$driver.ko")" initrd/; done
cat > initrd/init <<INIT
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
for driver in $drivers; do /bin/busybox insmod /\$driver.ko; done
until [ -b /dev/vda ]; do /bin/busybox sleep 0.05; done
/bin/busybox mount -t ext4 /dev/vda /new
/bin/busybox umount /proc
/bin/busybox mount --move /dev /new/dev
exec /bin/busybox switch_root /new /lib/systemd/systemd
INIT
chmod +x initrd/init
(cd initrd && find . | cpio -o -H newc --quiet) > initrd.img
rm -rf "$tree" debs kernel initrd
ls -l vmlinuz initrd.img disk.ext4
