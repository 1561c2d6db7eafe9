package host

import (
	"fmt"
	"slices"
	"strings"
)

// GiB is 2^30 bytes.
const GiB = 1 << 30

// Disk that must be free: much when everything is still to be compiled, less
// when only a node has to live.
const (
	DiskToBuild = 8 * GiB
	DiskToRun   = 2 * GiB
	memoryToRun = GiB
)

// Facts is what Look found out.
type Facts struct {
	// System is the operating system, as in GOOS.
	System string
	// UID is the user's number; 0 is root.
	UID int
	// Build reports whether programs still have to be compiled.
	Build bool
	// Go reports whether a `go` command is in PATH.
	Go bool
	// Apt reports whether Debian's package tools are here.
	Apt bool
	// Absent are the Debian packages with missing files.
	Absent []string
	// AbsentToBuild are those of them that compiling needs.
	AbsentToBuild []string
	// Disk is the free space of each directory that will be written to, in bytes.
	Disk map[string]uint64
	// Memory is the memory that programs can still get, in bytes.
	Memory uint64
	// Cgroups is the version of cgroups at /sys/fs/cgroup: 1, 2, or 0 for none.
	Cgroups int
	// Controllers are the cgroup controllers that can be used.
	Controllers []string
	// Overlay reports whether the kernel has the overlay file system.
	Overlay bool
	// BridgeFilter reports whether iptables sees packets that cross a bridge.
	BridgeFilter bool
	// Namespace is the reason why no network namespace can be made, or "".
	Namespace string
}

const (
	noGo  = "no `go` command in PATH: install Go from https://go.dev/dl and add its bin folder to PATH"
	noApt = "packages are missing and this system has no apt-get: install the equivalents of the Debian packages %s with its own package manager"
)

// Judge returns one line for each thing that is wrong, with its mend, and nil
// when a node can be started here. Absent packages are no fault when apt-get
// can install them.
func Judge(f Facts) []string {
	if f.System != "linux" {
		return []string{"this is " + f.System + ", and a node needs Linux: use kind with a Docker engine instead"}
	}
	if f.UID != 0 {
		return []string{"a node makes namespaces and mounts, so this must run as root: put `sudo` before the command"}
	}
	var faults []string
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	fault(f.Build && !f.Go, noGo)
	fault(len(f.Absent) > 0 && !f.Apt, noApt, strings.Join(f.Absent, " "))
	faults = append(faults, judgeDisk(f)...)
	fault(f.Memory < memoryToRun, "only %d MiB of memory are free and a node needs 1 GiB: stop something, or use a larger machine", f.Memory>>20)
	faults = append(faults, judgeCgroups(f)...)
	fault(!f.Overlay, "the kernel has no overlay file system: run `modprobe overlay`")
	fault(!f.BridgeFilter, "the kernel does not filter bridged packets, so Services would not work between pods: run `modprobe br_netfilter`")
	fault(f.Namespace != "", "no network namespace can be made (%s): run on the machine itself, or in a privileged container", f.Namespace)
	return faults
}

// JudgeBuild is Judge for compiling only, which needs root just where packages must be installed.
func JudgeBuild(f Facts) []string {
	if f.System != "linux" {
		return []string{"this is " + f.System + ", and the node's programs are compiled on Linux: use kind with a Docker engine instead"}
	}
	var faults []string
	if !f.Go {
		faults = append(faults, noGo)
	}
	switch packages := strings.Join(f.AbsentToBuild, " "); {
	case packages == "":
	case !f.Apt:
		faults = append(faults, fmt.Sprintf(noApt, packages))
	case f.UID != 0:
		faults = append(faults, "packages are missing and only root can install them: run `sudo apt-get install "+packages+"`")
	}
	return append(faults, judgeDisk(f)...)
}

func judgeDisk(f Facts) []string {
	need := uint64(DiskToRun)
	if f.Build {
		need = DiskToBuild
	}
	var faults []string
	for dir, free := range f.Disk {
		if free < need {
			faults = append(faults, fmt.Sprintf("only %.1f GiB are free below %s and %d GiB are needed: remove something (`go clean -cache` gives back what Go builds left), or choose another place with SWITCHYARD_CACHE and SWITCHYARD_STATE", float64(free)/GiB, dir, need/GiB))
		}
	}
	slices.Sort(faults)
	return faults
}

// controllers are the cgroup controllers that kubelet requires, by version of cgroups.
var controllers = map[int][]string{
	1: {"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"},
	2: {"cpu", "cpuset", "memory", "pids"},
}

func judgeCgroups(f Facts) []string {
	if f.Cgroups == 0 {
		return []string{"no cgroups are mounted at /sys/fs/cgroup: run `mount -t cgroup2 none /sys/fs/cgroup`"}
	}
	var absent []string
	for _, c := range controllers[f.Cgroups] {
		if !slices.Contains(f.Controllers, c) {
			absent = append(absent, c)
		}
	}
	switch {
	case len(absent) == 0:
		return nil
	case f.Cgroups == 1:
		c := absent[0]
		return []string{fmt.Sprintf("the cgroup controllers %s are not mounted: for each, like %s, run `mkdir -p /sys/fs/cgroup/%s && mount -t cgroup -o %s cgroup /sys/fs/cgroup/%s`", strings.Join(absent, " "), c, c, c, c)}
	}
	return []string{fmt.Sprintf("the cgroup controllers %s are not available: start the machine with them, or give them to this container", strings.Join(absent, " "))}
}
