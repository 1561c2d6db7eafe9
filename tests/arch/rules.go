package arch

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// rooms lists, for each component, the components, or packages of others, that its packages may
// import. Main packages and tests may import any.
var rooms = map[string][]string{
	"protos":            {},
	"eventbus":          {"protos"},
	"routeserver":       {"eventbus", "protos"},
	"xds":               {"routeserver", "eventbus", "protos"},
	"sidecars":          {"xds", "routeserver", "protos", "eventbus/callers", "eventbus/callers/scrapes", "eventbus/callers/streams", "eventbus/callers/tokens", "eventbus/jwks", "eventbus/lists", "eventbus/program", "eventbus/records", "eventbus/trust", "eventbus/trust/authority", "eventbus/wake"},
	"tunnels":           {"eventbus", "protos"},
	"workflows":         {"eventbus", "protos", "xds/routingkey"},
	"reconcilers":       {"protos", "eventbus", "routeserver", "xds", "sidecars", "tunnels", "workflows"},
	"controlplane-link": {"protos", "eventbus", "routeserver", "xds", "sidecars", "tunnels", "workflows", "reconcilers"},
	commandLine:         {"protos", "eventbus", "routeserver", "xds", "sidecars", "tunnels", "workflows", "reconcilers"},
	"charts":            {},
	"tools":             {"protos", "eventbus", "routeserver", "xds", "sidecars", "tunnels", "workflows", "reconcilers", "charts"},
	"tests":             nil, // any
}

// interfaces are the components that no other component imports, main packages included. The
// operations that they offer are in the components below.
var interfaces = []string{commandLine, "controlplane-link"}

// flagLibraries are imported by the command line only.
var flagLibraries = []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}

// multiplexer is imported by one package only: there is one kind of session.
const multiplexer, multiplexing = "github.com/libp2p/go-yamux/v5", "tunnels/carrier"

// pure names the packages, and the files, that take values and return values.
var (
	purePackages = []string{
		"controlplane-link/admission",
		"controlplane-link/controlplane/model",
		"controlplane-link/controlplane/rest/decode",
		"controlplane-link/controlplane/rest/encode",
		"controlplane-link/credentials",
		"controlplane-link/identity",
		"controlplane-link/kubeapi/table",
		"controlplane-link/preview/headers",
		"controlplane-link/preview/label",
		"controlplane-link/reach/allow",
		"protos/problems",
		"eventbus/event",
		"eventbus/audit",
		"eventbus/jwks",
		"routeserver/bisect",
		"routeserver/api/messages",
		"routeserver/table",
		"routeserver/explain",
		"eventbus/spelling",
		"routeserver/history/fold",
		"xds/assembly",
		"xds/translate",
		"xds/routingkey",
		"sidecars/inject",
		"sidecars/coverage",
		"sidecars/redirect/spec",
		"sidecars/redirect/xtables",
		"sidecars/traffic/elide",
		"sidecars/traffic/override/policy",
		"sidecars/traffic/record",
		"sidecars/traffic/ticket",
		"sidecars/traffic/har",
		"sidecars/traffic/published",
		"reconcilers/condition",
		"reconcilers/fork",
		"reconcilers/fork/power",
		"reconcilers/fork/reserved",
		"reconcilers/fork/variables",
		"reconcilers/meshes/gatewayapi",
		"reconcilers/meshes/istio",
		"reconcilers/meshes/keymatch",
		"reconcilers/meshes/precedence",
		"reconcilers/policies",
		"reconcilers/routing",
		"reconcilers/tunnelholders/holders",
		"tunnels/attempts",
		"tunnels/credential",
		"tunnels/identity",
		"tunnels/policy",
		"tunnels/sshcert",
		"tunnels/workstation/consent",
		"tunnels/workstation/reconnect",
		"tunnels/workstation/redirect",
		"tunnels/workstation/containerenv",
		"workflows/comparison",
		"workflows/compile",
		"workflows/engine",
		"workflows/execunit",
		"workflows/jobexec/ticket",
		"workflows/jobpod",
		"workflows/podreads",
		"workflows/spec",
		"workflows/specfile",
		"tools/switchyard/command/parse",
		"tools/switchyard/show",
	}
	pureFiles = regexp.MustCompile(`^reconcilers/[^/]+/(decide|render)[a-z_]*\.go$`)
)

// impureImports are what a pure package may not import: each is a way to reach
// the clock, the network, the disk, another goroutine, a log or the cluster.
var impureImports = []string{
	"context", "crypto/rand", "io/fs", "io/ioutil", "log", "math/rand", "net", "net/http",
	"os", "os/exec", "os/signal", "runtime", "sync", "sync/atomic", "syscall", "testing",
	"github.com/nats-io/nats.go", "github.com/nats-io/nats-server",
	"github.com/prometheus/client_golang", "google.golang.org/grpc",
	"k8s.io/client-go", "sigs.k8s.io/controller-runtime",
}

// pureWithin are packages below an impure one that only name or parse things.
var pureWithin = []string{"net/netip", "net/url", "net/textproto"}

// impureCalls are functions of otherwise pure packages that read the clock.
var impureCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
}

// vagueNames are forbidden as package names: they describe no purpose.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base"}

// Budgets, after the best that a product of this field holds.
const (
	maxFileLines       = 500
	maxFunctionLines   = 60
	maxReconcilerLines = 200
	maxReconcileLines  = 40
	maxMainLines       = 60
)

// Direction reports imports that go against the direction of the rooms.
func Direction(f File) []string {
	allowed, known := rooms[f.Room()]
	if !known {
		return nil // TopLevel reports the folder itself
	}
	if allowed == nil || f.Test() || f.Program() {
		return nil
	}
	var broken []string
	for _, imported := range f.Imports() {
		rest, ours := strings.CutPrefix(imported, module+"/")
		if !ours {
			continue
		}
		room := roomOf(rest)
		if room != f.Room() && !slices.Contains(allowed, room) && !slices.Contains(allowed, rest) {
			broken = append(broken, fmt.Sprintf("%s imports %s; %s may import only %s",
				f.Path, imported, f.Room(), strings.Join(allowed, ", ")))
		}
	}
	return broken
}

// Above reports imports of a component that none may import, and of flags outside the command line.
func Above(f File) []string {
	var broken []string
	for _, imported := range f.Imports() {
		rest, ours := strings.CutPrefix(imported, module+"/")
		switch room := roomOf(rest); {
		case !ours && slices.Contains(flagLibraries, imported) && f.Room() != commandLine:
			broken = append(broken, fmt.Sprintf("%s imports %s; only %s may: move the operation below it and its flags there", f.Path, imported, commandLine))
		case imported == multiplexer && f.Dir() != multiplexing && f.Room() != "tests":
			broken = append(broken, fmt.Sprintf("%s imports %s; only %s may: use its sessions", f.Path, imported, multiplexing))
		case ours && room != f.Room() && slices.Contains(interfaces, room) && !f.Test() && f.Room() != "tests":
			broken = append(broken, fmt.Sprintf("%s imports %s; no component imports %s: move what both need below it", f.Path, imported, room))
		}
	}
	return broken
}

// Mutual reports pairs of components that import each other, without main packages and tests.
func Mutual(files []File) []string {
	imports := map[[2]string]string{}
	for _, f := range files {
		for _, imported := range f.Imports() {
			rest, ours := strings.CutPrefix(imported, module+"/")
			if room := roomOf(rest); ours && room != f.Room() && !f.Test() && !f.Program() {
				imports[[2]string{f.Room(), room}] = f.Path
			}
		}
	}
	var broken []string
	for pair, by := range imports {
		if back, both := imports[[2]string{pair[1], pair[0]}]; both && pair[0] < pair[1] {
			broken = append(broken, fmt.Sprintf("%s and %s import each other (%s, %s)", pair[0], pair[1], by, back))
		}
	}
	slices.Sort(broken)
	return broken
}

// KindsApart reports packages of a kind that import that of another. A package of a kind is
// one of the controllers' with a reconciler.go; what two of them need is a package below both.
func KindsApart(files []File) []string {
	kinds := map[string]bool{}
	for _, f := range files {
		if f.Room() == "reconcilers" && path.Base(f.Path) == "reconciler.go" {
			kinds[f.Dir()] = true
		}
	}
	var broken []string
	for _, f := range files {
		for _, imported := range f.Imports() {
			other := strings.TrimPrefix(imported, module+"/")
			if kinds[f.Dir()] && kinds[other] && other != f.Dir() && !f.Test() {
				broken = append(broken, fmt.Sprintf("%s imports %s; no kind imports a kind", f.Path, imported))
			}
		}
	}
	return broken
}

// Pure reports whether a file is held to purity.
func Pure(f File) bool {
	if f.Test() || f.Generated() {
		return false
	}
	if pureFiles.MatchString(f.Path) {
		return true
	}
	return slices.ContainsFunc(purePackages, func(p string) bool {
		return f.Dir() == p || strings.HasPrefix(f.Dir(), p+"/")
	})
}

// Impurities reports what a pure file imports or calls that it may not.
func Impurities(f File) []string {
	if !Pure(f) {
		return nil
	}
	var broken []string
	for _, imported := range f.Imports() {
		if impure(imported) {
			broken = append(broken, fmt.Sprintf("%s is pure and imports %s", f.Path, imported))
		}
	}
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		if _, goes := n.(*ast.GoStmt); goes {
			broken = append(broken, fmt.Sprintf("%s:%d is pure and starts a goroutine", f.Path, f.Line(n.Pos())))
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Obj == nil && slices.Contains(impureCalls[pkg.Name], sel.Sel.Name) {
			broken = append(broken, fmt.Sprintf("%s:%d is pure and reads the clock with %s.%s",
				f.Path, f.Line(n.Pos()), pkg.Name, sel.Sel.Name))
		}
		return true
	})
	return broken
}

// Torn returns functions that write a file in place. If the program is killed during the write, it
// leaves an incomplete file, which the next program reads: a file must be written beside its place
// and renamed, in one function. Tests are exempt.
func Torn(f File) []string {
	if f.Test() || f.Room() == "tests" {
		return nil
	}
	var broken []string
	for _, decl := range f.Syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		written, renamed := "", false
		ast.Inspect(fn, func(n ast.Node) bool {
			sel, _ := n.(*ast.SelectorExpr)
			if sel == nil {
				return true
			}
			if pkg, _ := sel.X.(*ast.Ident); pkg == nil || pkg.Name != "os" {
				return true
			}
			switch sel.Sel.Name {
			case "WriteFile", "Create", "O_TRUNC":
				written = "os." + sel.Sel.Name
			case "Rename":
				renamed = true
			}
			return true
		})
		if written != "" && !renamed {
			broken = append(broken, fmt.Sprintf("%s: %s writes a file in place (%s): write it beside its place and rename it", f.Path, fn.Name.Name, written))
		}
	}
	return broken
}

func impure(imported string) bool {
	if slices.Contains(pureWithin, imported) {
		return false
	}
	return slices.ContainsFunc(impureImports, func(p string) bool {
		return imported == p || strings.HasPrefix(imported, p+"/")
	})
}

// Sizes reports files and functions over budget.
func Sizes(f File) []string {
	if f.Generated() || f.Test() {
		return nil
	}
	var broken []string
	if limit := fileLimit(f); f.Lines() > limit {
		broken = append(broken, fmt.Sprintf("%s has %d lines; at most %d: perhaps it is two rooms", f.Path, f.Lines(), limit))
	}
	for _, decl := range f.Syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines, limit := f.Line(fn.End())-f.Line(fn.Pos())+1, maxFunctionLines
		if fn.Name.Name == "Reconcile" {
			limit = maxReconcileLines
		}
		if lines > limit {
			broken = append(broken, fmt.Sprintf("%s:%d %s has %d lines; at most %d",
				f.Path, f.Line(fn.Pos()), fn.Name.Name, lines, limit))
		}
	}
	return broken
}

func fileLimit(f File) int {
	switch path.Base(f.Path) {
	case "main.go":
		return maxMainLines
	case "reconciler.go":
		return maxReconcilerLines
	}
	return maxFileLines
}
