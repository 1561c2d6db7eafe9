package recipe

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// repository is the folder of the program, seen from this test.
const repository = "../.."

func opened(t *testing.T) *Builder {
	t.Helper()
	b, err := Open(repository, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestThePinsOfTheRepositoryMakeARecipe(t *testing.T) {
	b := opened(t)
	all := map[string]bool{}
	for _, g := range b.Groups {
		for _, p := range g.Programs {
			if all[p.Name] {
				t.Errorf("%s is built twice", p.Name)
			}
			all[p.Name] = true
		}
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl", "kubelet", "containerd", "runc", "coredns", "pause"} {
		if !all[name] {
			t.Errorf("%s is not in the recipe", name)
		}
	}
	if b.Groups[0].Name != "apiserver" || len(b.Groups[0].Programs) != 3 {
		t.Errorf("the first group is %v, want what controller tests need", b.Groups[0])
	}
	if flags := strings.Join(b.Groups[0].Flags, " "); !strings.Contains(flags, "gitVersion=v1.36.") || !strings.Contains(flags, "gitMinor=36") {
		t.Errorf("flags %s do not tell the version that go.mod pins", flags)
	}
}

func TestHashChangesWithEverythingThatChangesThePrograms(t *testing.T) {
	pins := Pins{"kubernetes/go.mod": []byte("require k8s.io/kubernetes v1.36.3"), "runtime/go.mod": []byte("require helm.sh/helm/v3 v3.22.0")}
	groups, err := Groups(pins)
	if err != nil {
		t.Fatal(err)
	}
	base := Hash(pins, groups, "go1")
	if again := Hash(maps.Clone(pins), groups, "go1"); again != base {
		t.Errorf("%s then %s for the same recipe", base, again)
	}
	sum := maps.Clone(pins)
	sum["runtime/go.sum"] = []byte("x")
	moved := maps.Clone(pins)
	moved["kubernetes/go.sum"] = []byte("x")
	flags := append([]Group{{Flags: []string{"-race"}}}, groups...)
	seen := map[string]string{base: "the same recipe"}
	for what, hash := range map[string]string{
		"another go.sum":                    Hash(sum, groups, "go1"),
		"the same text in the other go.sum": Hash(moved, groups, "go1"),
		"another Go":                        Hash(pins, groups, "go2"),
		"other flags":                       Hash(pins, flags, "go1"),
	} {
		if other, ok := seen[hash]; ok {
			t.Errorf("%s has the hash of %s", what, other)
		}
		seen[hash] = what
	}
}

func TestAMissingPinIsNamed(t *testing.T) {
	_, err := Groups(Pins{"kubernetes/go.mod": []byte("module x\n")})
	if err == nil || !strings.Contains(err.Error(), "k8s.io/kubernetes") {
		t.Errorf("got %v", err)
	}
}

func TestVersion(t *testing.T) {
	gomod := []byte("module m\n\nrequire (\n\ta.b/c v1.2.3\n\ta.b/cc v9.9.9 // indirect\n)\nrequire one/line v0.1.0\n")
	for module, want := range map[string]string{"a.b/c": "v1.2.3", "one/line": "v0.1.0", "a.b/cc": "v9.9.9"} {
		if got, err := version(gomod, module); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %s", module, got, err, want)
		}
	}
}

func TestChoose(t *testing.T) {
	b := opened(t)
	if got, err := Choose(b.Groups, "apiserver"); err != nil || len(got) != 1 {
		t.Errorf("apiserver: %v, %v", got, err)
	}
	if got, err := Choose(b.Groups, ""); err != nil || len(got) != len(b.Groups) {
		t.Errorf("all: %v, %v", got, err)
	}
	if _, err := Choose(b.Groups, "nothing"); err == nil || !strings.Contains(err.Error(), "apiserver") {
		t.Errorf("an unknown group: %v, want the names that exist", err)
	}
}

func TestProgramIsBuiltOnceAndLinked(t *testing.T) {
	b := opened(t)
	pause, err := Choose(b.Groups, "pause")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Build(t.Context(), pause, t.Logf); err != nil {
		t.Fatal(err)
	}
	if left := b.Missing(pause); len(left) != 0 {
		t.Errorf("still missing after the build: %v", left)
	}
	again := func(format string, args ...any) { t.Errorf("built again: "+format, args...) }
	if err := b.Build(t.Context(), pause, again); err != nil {
		t.Fatal(err)
	}
}

func TestABrokenBuildShowsTheCompilersOutput(t *testing.T) {
	b := opened(t)
	g := Group{Name: "broken", Module: ".", Programs: []Program{{"x", "./no/such/folder"}}}
	err := b.Build(t.Context(), []Group{g}, t.Logf)
	if err == nil || !strings.Contains(err.Error(), "no/such/folder") {
		t.Errorf("got %v", err)
	}
}

func TestCollectCountsPackagesAndKeepsFaults(t *testing.T) {
	var far tally
	said := collect(bytes.NewBufferString("a.b/c\ngo: downloading x v1\n# a.b/d\nd.go:3:1: undefined: x\nfmt\n"), far.take)
	if far.done.Load() != 2 || said != "# a.b/d\nd.go:3:1: undefined: x" {
		t.Errorf("counted %d, kept %q", far.done.Load(), said)
	}
}

func TestLeft(t *testing.T) {
	for want, c := range map[string]struct {
		done, total int
		elapsed     time.Duration
	}{
		"0 of about 2847 packages compiled":                             {0, 2847, time.Second},
		"99 of about 2847 packages compiled":                            {99, 2847, time.Minute},
		"949 of about 2847 packages compiled, about 4 min left":         {949, 2847, 2 * time.Minute},
		"2800 of about 2847 packages compiled, less than a minute left": {2800, 2847, 6 * time.Minute},
		"every package compiled, linking":                               {2847, 2847, 6 * time.Minute},
	} {
		if got := left(c.done, c.total, c.elapsed); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestABuildReportsProgress compiles a small program with an empty build cache:
// who waits for minutes wants to know for how many.
func TestABuildReportsProgress(t *testing.T) {
	t.Setenv("GOCACHE", t.TempDir())
	b := opened(t)
	b.heartbeat = 10 * time.Millisecond
	pause, err := Choose(b.Groups, "pause")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var notes []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, fmt.Sprintf(format, args...))
	}
	if err := b.Build(t.Context(), pause, note); err != nil {
		t.Fatal(err)
	}
	told := regexp.MustCompile(`^pause: (\d+) of about (\d+) packages compiled$`)
	seen := map[string]bool{}
	most := 0
	for _, n := range notes {
		if m := told.FindStringSubmatch(n); m != nil {
			done, _ := strconv.Atoi(m[1])
			most = max(most, done)
			seen[m[2]] = true
		}
	}
	if len(seen) != 1 || most < 10 {
		t.Errorf("%d packages were told as compiled, of %v, want one number throughout:\n%s", most, seen, strings.Join(notes, "\n"))
	}
	if !slices.Contains(notes, "pause: every package compiled, linking") {
		t.Errorf("what was counted before was never all compiled:\n%s", strings.Join(notes, "\n"))
	}
}
