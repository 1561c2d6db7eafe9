package cleanup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mountPoints returns the mount points that pass a filter, in the order in which they can be
// unmounted: the last mounted first.
func mountPoints(filter mountinfo.FilterFunc) ([]string, error) {
	mounts, err := mountinfo.GetMounts(filter)
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	var points []string
	for _, m := range slices.Backward(mounts) {
		points = append(points, m.Mountpoint)
	}
	return points, nil
}

// rounds is how often Unmount looks for mounts that were below others.
const rounds = 10

// Unmount takes away every mount at or below dir and returns how many there were.
func Unmount(dir string) (count int, err error) {
	for range rounds {
		points, err := mountPoints(mountinfo.PrefixFilter(dir))
		if err != nil || len(points) == 0 {
			return count, err
		}
		for _, point := range points {
			if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
				return count, fmt.Errorf("unmounting %s: %w", point, err)
			}
			count++
		}
	}
	return count, fmt.Errorf("mounts below %s reappear after every unmount: run `umount -R %s`", dir, dir)
}

// RemoveAll removes a directory with everything in it, unless something is still
// mounted there: that would remove what belongs to others.
func RemoveAll(dir string) error {
	points, err := mountPoints(mountinfo.PrefixFilter(dir))
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("not removing %s, since %s is still mounted: run `umount -R %s`", dir, points[0], dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}

// hierarchies lists where cgroups are mounted.
func hierarchies() ([]string, error) {
	return mountPoints(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
}

// CreateCgroup makes the cgroup above the node's pods in every hierarchy.
func CreateCgroup(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		// With version 2, a group has a controller only if its parent enables it.
		if content, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil && len(content) > 1 {
			on := "+" + strings.Join(strings.Fields(string(content)), " +")
			if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte(on), 0o644); err != nil {
				return fmt.Errorf("giving cgroup controllers to %s: %w", filepath.Join(root, name), err)
			}
		}
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making the cgroup of the node: %w", err)
		}
		if err := inheritCPUs(root, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// inheritCPUs copies the CPUs and memory nodes of the parent to a new cpuset group of version 1.
// Without them no process can enter it.
func inheritCPUs(from, to string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(from, file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, file), value, 0o644)
		}
		if err != nil {
			return fmt.Errorf("giving %s to the node's cgroup: %w", file, err)
		}
	}
	return nil
}

// RemoveCgroups removes the cgroup of the node and all below it, in every
// hierarchy, and returns how many there were. No process may be in them.
func RemoveCgroups(name string) (count int, err error) {
	roots, err := hierarchies()
	if err != nil {
		return 0, err
	}
	for _, root := range roots {
		n, err := removeGroups(filepath.Join(root, name))
		count += n
		if err != nil {
			return count, err
		}
	}
	return count, nil
}

func removeGroups(dir string) (count int, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("listing the cgroup %s: %w", dir, err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		n, err := removeGroups(filepath.Join(dir, e.Name()))
		count += n
		if err != nil {
			return count, err
		}
	}
	if err := unix.Rmdir(dir); err != nil {
		return count, fmt.Errorf("removing the cgroup %s: %w", dir, err)
	}
	return count + 1, nil
}
