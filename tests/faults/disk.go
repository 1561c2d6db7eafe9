package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is an ext4 file system in a loop device.
type Disk struct {
	// Dir is where it is mounted.
	Dir   string
	image string
}

// NewDisk makes a disk of so many MiB below a directory and mounts it.
func NewDisk(below string, size int64) (*Disk, error) {
	d := &Disk{Dir: filepath.Join(below, "disk"), image: filepath.Join(below, "image")}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(size<<20), f.Close())
	}
	if err != nil {
		return nil, err
	}
	if err := command("mkfs.ext4", "-q", "-F", d.image); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.Dir, 0o750); err != nil {
		return nil, err
	}
	// While the disk is away, what lies under it must not be taken for it.
	if err := unix.Mount("tmpfs", d.Dir, "tmpfs", unix.MS_RDONLY, "size=4k"); err != nil {
		return nil, fmt.Errorf("mount what lies under the disk: %w", err)
	}
	return d, d.Mount()
}

// Mount mounts the disk. The loop device goes when it is unmounted.
func (d *Disk) Mount() error { return command("mount", "-o", "loop", d.image, d.Dir) }

// Unmount unmounts the disk as soon as it is not in use any more.
func (d *Disk) Unmount() error {
	err := unix.Unmount(d.Dir, 0)
	for end := time.Now().Add(20 * time.Second); errors.Is(err, unix.EBUSY) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		err = unix.Unmount(d.Dir, 0)
	}
	if err != nil {
		return fmt.Errorf("unmount the disk: %w", err)
	}
	return nil
}

// Cut cuts the power: synced data is on the disk, all else is lost, and from now on every access
// fails. This is ext4's own shutdown, without a flush of its journal.
func (d *Disk) Cut() error {
	dir, err := os.Open(d.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	const (
		shutdown   = 0x8004587d // EXT4_IOC_SHUTDOWN
		noLogFlush = 2
	)
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), shutdown, noLogFlush); err != nil {
		return fmt.Errorf("cut the power of the disk: %w", err)
	}
	return nil
}

// ReadOnly makes the disk read-only, as the kernel does when it finds it broken.
// Only Unmount and Mount make it writable again.
func (d *Disk) ReadOnly() error { return command("mount", "-o", "remount,abort", d.Dir) }

// Remove unmounts all of the disk and removes its image.
func (d *Disk) Remove() error {
	// The disk, and what lies under it; EINVAL when one of them is not mounted.
	for range 2 {
		if err := unix.Unmount(d.Dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount the disk: %w", err)
		}
	}
	return os.Remove(d.image)
}

// command runs a program; the error has its output.
func command(name string, args ...string) error {
	if said, err := exec.CommandContext(context.Background(), name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, said)
	}
	return nil
}
