// Package recipe compiles the programs of a node from pinned Go modules.
//
// The pins are two nested modules beside this program, kubernetes and runtime: their go.mod and
// go.sum contain all versions. A recipe is a list of groups; a group is compiled by one `go build`.
// Programs are cached under a name made from the pins, the flags and the version of Go, so a
// changed pin never mixes with old programs; `bin/current` points to the directory of the recipe in
// use. The group "apiserver" comes first, since controller tests need no more than that.
//
// This file is pure; build.go does the work.
package recipe

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Group is what one `go build` makes.
type Group struct {
	// Name is what a person calls it on the command line.
	Name string
	// Module is the folder of the module, relative to this program's own.
	Module string
	// Flags are put between `go build` and the packages.
	Flags []string
	// Env is added to the environment, as KEY=value.
	Env []string
	// Programs are the results.
	Programs []Program
}

// Program is one executable file.
type Program struct {
	// Name is its file name in the cache.
	Name string
	// Package is the import path, or ./folder, of its main package.
	Package string
}

// Pins are the files that decide which source is compiled, by path relative to
// this program's folder.
type Pins map[string][]byte

// PinFiles names the files of Pins.
func PinFiles() []string {
	return []string{
		"kubernetes/go.mod", "kubernetes/go.sum",
		"runtime/go.mod", "runtime/go.sum", "runtime/coredns/main.go", "pause/main.go",
	}
}

// Groups lists everything a node needs, in the order in which it is compiled.
// It fails when a pinned version cannot be found in the pins.
func Groups(pins Pins) ([]Group, error) {
	kube, err := version(pins["kubernetes/go.mod"], "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	helm, err := version(pins["runtime/go.mod"], "helm.sh/helm/v3")
	if err != nil {
		return nil, err
	}
	numbers := strings.SplitN(strings.TrimPrefix(kube, "v"), ".", 3)
	if len(numbers) != 3 {
		return nil, fmt.Errorf("kubernetes/go.mod: version %q of k8s.io/kubernetes is not like v1.36.3", kube)
	}
	kubeFlags := ldflags(map[string]string{
		"k8s.io/component-base/version.gitVersion":   kube,
		"k8s.io/component-base/version.gitMajor":     numbers[0],
		"k8s.io/component-base/version.gitMinor":     numbers[1],
		"k8s.io/component-base/version.gitTreeState": "clean",
	})
	runtimeFlags := ldflags(map[string]string{
		"helm.sh/helm/v3/internal/version.version":      helm,
		"helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor": numbers[0],
		"helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": numbers[1],
	})
	return []Group{
		{Name: "apiserver", Module: "kubernetes", Flags: kubeFlags, Programs: []Program{
			{"etcd", "go.etcd.io/etcd/server/v3"},
			{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
			{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
		}},
		{Name: "node", Module: "kubernetes", Flags: kubeFlags, Programs: []Program{
			{"kubelet", "k8s.io/kubernetes/cmd/kubelet"},
			{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
			{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
			{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"},
		}},
		{Name: "runc", Module: "runtime", Flags: append([]string{"-tags=seccomp"}, ldflags(nil)...), Programs: []Program{
			{"runc", "github.com/opencontainers/runc"},
		}},
		{Name: "runtime", Module: "runtime", Flags: runtimeFlags, Programs: []Program{
			{"containerd", "github.com/containerd/containerd/v2/cmd/containerd"},
			{"containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
			{"ctr", "github.com/containerd/containerd/v2/cmd/ctr"},
			{"coredns", "./coredns"},
			{"helm", "helm.sh/helm/v3/cmd/helm"},
		}},
		{Name: "pause", Module: ".", Flags: ldflags(nil), Env: []string{"CGO_ENABLED=0"}, Programs: []Program{
			{"pause", "./pause"},
		}},
	}, nil
}

// ldflags makes the linker flags: no debug tables, and the given string variables set.
func ldflags(set map[string]string) []string {
	flags := []string{"-s", "-w"}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		flags = append(flags, "-X", name+"="+set[name])
	}
	return []string{"-ldflags=" + strings.Join(flags, " ")}
}

// Hash names the result of a recipe: equal names mean equal programs.
func Hash(pins Pins, groups []Group, goVersion string) string {
	h := sha256.New()
	fmt.Fprintln(h, goVersion, groups)
	for _, name := range PinFiles() {
		fmt.Fprintln(h, name, len(pins[name]))
		h.Write(pins[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

var required = regexp.MustCompile(`^\s*(?:require\s+)?(\S+)\s+(v\S+)`)

// version finds the version of a module in a go.mod.
func version(gomod []byte, module string) (string, error) {
	lines := bufio.NewScanner(bytes.NewReader(gomod))
	for lines.Scan() {
		if m := required.FindStringSubmatch(lines.Text()); m != nil && m[1] == module {
			return m[2], nil
		}
	}
	return "", fmt.Errorf("no version of %s is pinned in go.mod: add a require line for it", module)
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// output returns the file name of the program in the output of `go build`.
func (p Program) output() string {
	base := path.Base(p.Package)
	if majorVersion.MatchString(base) {
		return path.Base(path.Dir(p.Package))
	}
	return base
}

// Choose returns the groups with the given name, or all groups for an empty name.
func Choose(groups []Group, name string) ([]Group, error) {
	if name == "" {
		return groups, nil
	}
	var names []string
	for _, g := range groups {
		if g.Name == name {
			return []Group{g}, nil
		}
		names = append(names, g.Name)
	}
	return nil, fmt.Errorf("no group %q to build: choose one of %s", name, strings.Join(names, ", "))
}
