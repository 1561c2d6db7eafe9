package host

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func good() Facts {
	return Facts{
		System: "linux", Build: true, Go: true, Apt: true,
		Disk: map[string]uint64{"/var/lib/switchyard": 100 * GiB}, Memory: 8 * GiB,
		Cgroups: 1, Controllers: controllers[1], Overlay: true, BridgeFilter: true,
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   []string // a part of each expected line, in order
	}{
		"a good machine has no faults":                  {func(*Facts) {}, nil},
		"absent packages are no fault where apt-get is": {func(f *Facts) { f.Absent = []string{"iproute2"} }, nil},
		"absent packages without apt-get are named":     {func(f *Facts) { f.Absent, f.Apt = []string{"iproute2", "gcc"}, false }, []string{"iproute2 gcc"}},
		"somebody who is not root is told only that":    {func(f *Facts) { f.UID, f.Cgroups = 1000, 0 }, []string{"sudo"}},
		"another system is told only that":              {func(f *Facts) { f.System, f.UID = "darwin", 501 }, []string{"kind"}},
		"a build needs 8 GiB":                           {func(f *Facts) { f.Disk["/c"] = 7 * GiB }, []string{"7.0 GiB are free below /c and 8 GiB"}},
		"a node that is built needs less":               {func(f *Facts) { f.Build, f.Disk["/c"] = false, 7*GiB }, nil},
		"but not nothing":                               {func(f *Facts) { f.Build, f.Disk["/c"] = false, GiB }, []string{"and 2 GiB are needed"}},
		"no Go and something to build":                  {func(f *Facts) { f.Go = false }, []string{"go.dev/dl"}},
		"no Go and nothing to build":                    {func(f *Facts) { f.Go, f.Build = false, false }, nil},
		"no cgroups":                                    {func(f *Facts) { f.Cgroups, f.Controllers = 0, nil }, []string{"mount -t cgroup2"}},
		"one controller of version 1 is not mounted":    {func(f *Facts) { f.Controllers = f.Controllers[:6] }, []string{"mount -t cgroup -o pids"}},
		"one controller of version 2 is not there":      {func(f *Facts) { f.Cgroups, f.Controllers = 2, []string{"cpu", "cpuset", "pids"} }, []string{"controllers memory are not available"}},
		"no overlay":                {func(f *Facts) { f.Overlay = false }, []string{"modprobe overlay"}},
		"no filtering on bridges":   {func(f *Facts) { f.BridgeFilter = false }, []string{"modprobe br_netfilter"}},
		"an unprivileged container": {func(f *Facts) { f.Namespace = "operation not permitted" }, []string{"privileged container"}},
		"little memory":             {func(f *Facts) { f.Memory = GiB / 2 }, []string{"512 MiB"}},
		"two faults are both told, each on a line of its own": {func(f *Facts) { f.Overlay, f.Memory = false, 0 }, []string{"0 MiB", "overlay"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := good()
			c.change(&f)
			got := Judge(f)
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %d lines", got, len(c.want))
			}
			for i, line := range got {
				if !strings.Contains(line, c.want[i]) || strings.Contains(line, "\n") {
					t.Errorf("line %q, want one line with %q in it", line, c.want[i])
				}
			}
		})
	}
}

func TestAbsent(t *testing.T) {
	list := []need{
		{pkg: "two-files", files: [][]string{{"/a"}, {"/b"}}},
		{pkg: "two-places", files: [][]string{{"/x", "/y"}}},
		{pkg: "compiler", files: [][]string{{"/cc"}}, build: true},
	}
	here := func(paths ...string) func(string) bool {
		return func(p string) bool {
			for _, h := range paths {
				if h == p {
					return true
				}
			}
			return false
		}
	}
	for name, c := range map[string]struct {
		build bool
		here  func(string) bool
		want  []string
	}{
		"everything is there":                   {true, here("/a", "/b", "/y", "/cc"), nil},
		"half of a package is not there":        {true, here("/a", "/y", "/cc"), []string{"two-files"}},
		"a compiler is only needed for a build": {false, here("/a", "/b", "/x"), nil},
		"nothing is there":                      {true, here(), []string{"two-files", "two-places", "compiler"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, absent(list, c.build, c.here)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLookDescribesThisMachine(t *testing.T) {
	f := Look(t.Context(), false, t.TempDir()+"/not/yet/there")
	if f.UID != os.Geteuid() || f.Memory == 0 || !f.Go {
		t.Errorf("facts %+v", f)
	}
	for dir, free := range f.Disk {
		if free == 0 {
			t.Errorf("no free space below %s", dir)
		}
	}
	if len(f.Disk) != 1 {
		t.Errorf("disks %v, want the one asked for, though the directory is not there yet", f.Disk)
	}
}

func TestJudgeBuild(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   string
	}{
		"nobody need be root where nothing is missing": {func(f *Facts) { f.UID = 1000 }, ""},
		"what is missing only root can install":        {func(f *Facts) { f.UID, f.AbsentToBuild = 1000, []string{"gcc"} }, "sudo apt-get install gcc"},
		"what is missing is no fault for root":         {func(f *Facts) { f.AbsentToBuild = []string{"gcc"} }, ""},
		"without apt-get the packages are named":       {func(f *Facts) { f.AbsentToBuild, f.Apt = []string{"gcc"}, false }, "the Debian packages gcc"},
		"a node's needs do not matter":                 {func(f *Facts) { f.Cgroups, f.Memory = 0, 0 }, ""},
		"the disk does":                                {func(f *Facts) { f.Disk["/c"] = GiB }, "8 GiB are needed"},
		"and Go":                                       {func(f *Facts) { f.Go = false }, "go.dev/dl"},
		"another system":                               {func(f *Facts) { f.System = "darwin" }, "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			f := good()
			c.change(&f)
			got := strings.Join(JudgeBuild(f), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
