package host

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"switchyard.dev/tools/cluster/internal/netns"
)

// need is one Debian package and the files of it that a node uses. One of the
// alternatives of each file is enough.
type need struct {
	pkg   string
	files [][]string
	build bool // only to compile
}

func command(name string) []string {
	return []string{"/usr/sbin/" + name, "/usr/bin/" + name, "/sbin/" + name, "/bin/" + name, "/usr/local/sbin/" + name, "/usr/local/bin/" + name}
}

var needs = []need{
	{pkg: "containernetworking-plugins", files: [][]string{{"/usr/lib/cni/bridge"}, {"/usr/lib/cni/host-local"}, {"/usr/lib/cni/portmap"}, {"/usr/lib/cni/loopback"}}},
	{pkg: "iptables", files: [][]string{command("iptables"), command("ip6tables"), command("iptables-restore")}},
	{pkg: "iproute2", files: [][]string{command("ip")}},
	{pkg: "conntrack", files: [][]string{command("conntrack")}},
	{pkg: "ipset", files: [][]string{command("ipset")}},
	{pkg: "ethtool", files: [][]string{command("ethtool")}},
	{pkg: "socat", files: [][]string{command("socat")}},
	{pkg: "mount", files: [][]string{command("mount")}},
	{pkg: "libseccomp2", files: [][]string{library("libseccomp.so.2")}},
	{pkg: "libseccomp-dev", files: [][]string{{"/usr/include/seccomp.h"}}, build: true},
	{pkg: "pkg-config", files: [][]string{command("pkg-config")}, build: true},
	{pkg: "gcc", files: [][]string{command("gcc")}, build: true},
	{pkg: "libc6-dev", files: [][]string{{"/usr/include/stdlib.h"}}, build: true},
}

func library(name string) []string {
	var places []string
	for _, dir := range []string{"/usr/lib", "/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib/aarch64-linux-gnu"} {
		places = append(places, filepath.Join(dir, name))
	}
	return places
}

// Look gathers the facts about this machine. It changes nothing. build reports
// whether programs must be compiled; dirs are the directories to be written to.
func Look(ctx context.Context, build bool, dirs ...string) Facts {
	f := Facts{System: runtime.GOOS, UID: os.Geteuid(), Build: build, Disk: map[string]uint64{}}
	_, noGo := exec.LookPath("go")
	_, noApt := exec.LookPath("apt-get")
	f.Go, f.Apt = noGo == nil, noApt == nil
	f.Absent = absent(needs, build, exists)
	f.AbsentToBuild = absent(slices.DeleteFunc(slices.Clone(needs), func(n need) bool { return !n.build }), build, exists)
	for _, dir := range dirs {
		if free, err := freeSpace(dir); err == nil {
			f.Disk[dir] = free
		}
	}
	f.Memory = availableMemory()
	f.Cgroups, f.Controllers = cgroups()
	f.Overlay = kernelHas("/proc/filesystems", "overlay") || moduleLoads(ctx, "overlay")
	f.BridgeFilter = exists("/proc/sys/net/bridge/bridge-nf-call-iptables") || moduleLoads(ctx, "br_netfilter")
	if err := netns.Try(); err != nil {
		f.Namespace = err.Error()
	}
	return f
}

func absent(needs []need, build bool, exists func(string) bool) []string {
	var pkgs []string
	for _, n := range needs {
		if n.build && !build {
			continue
		}
		for _, places := range n.files {
			if !slices.ContainsFunc(places, exists) {
				pkgs = append(pkgs, n.pkg)
				break
			}
		}
	}
	return pkgs
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// freeSpace is the free space of the file system that dir is or will be on.
func freeSpace(dir string) (uint64, error) {
	for !exists(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("asking for the free space of %s: %w", dir, err)
	}
	return s.Bavail * uint64(s.Bsize), nil
}

func availableMemory() uint64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kib, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// cgroups returns the version of the mounted hierarchy and its controllers.
func cgroups() (int, []string) {
	if content, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return 2, strings.Fields(string(content))
	}
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup"))
	if err != nil || len(mounts) == 0 {
		return 0, nil
	}
	var found []string
	for _, m := range mounts {
		found = append(found, strings.Split(m.VFSOptions, ",")...)
	}
	return 1, found
}

func kernelHas(file, word string) bool {
	content, err := os.ReadFile(file)
	return err == nil && slices.Contains(strings.Fields(string(content)), word)
}

// moduleLoads reports whether the kernel would find the module when it is needed.
// It does not load it.
func moduleLoads(ctx context.Context, name string) bool {
	return exec.CommandContext(ctx, "modprobe", "--dry-run", "--quiet", name).Run() == nil
}
