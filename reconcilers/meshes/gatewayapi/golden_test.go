package gatewayapi_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/meshes/precedence"
	"switchyard.dev/reconcilers/meshes/releases"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/tests/golden"
)

// setting is the first document of a golden input: the fields of Input other than objects.
type setting struct {
	// Managed are without names and keys if these do not matter.
	Managed                                              []gatewayapi.Managed `json:"managed"`
	CustomHeaders, PreservedLabels, PreservedAnnotations []string
	VirtualServices                                      map[string]string `json:"virtualServices"`
	Order                                                string            `json:"order"`
	RefusePolicies                                       bool
}

var orders = map[string]precedence.Order{"": precedence.API, "istiod": precedence.Istiod, "contour": precedence.Contour}

// key is the routing key of most cases.
const key = "k7q2m9x4v1tz8"

func TestGoldenPairs(t *testing.T) {
	for name, in := range goldenInputs(t) {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, filepath.Join("testdata", name+".out.yaml"), played(t, in))
		})
	}
}

// TestExamplesOfTheGatewayAPI derives from each route in the examples of the module, for a
// sandbox of each Service that they refer to.
func TestExamplesOfTheGatewayAPI(t *testing.T) {
	examples := exampleInputs(t)
	routes := 0
	for name, in := range examples {
		routes += len(in.Routes.HTTP) + len(in.Routes.GRPC)
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, filepath.Join("testdata/examples", name+".out.yaml"), played(t, in))
		})
	}
	recorded, err := filepath.Glob("testdata/examples/*.out.yaml")
	if err != nil || len(recorded) != len(examples) {
		t.Errorf("%d files are recorded (%v), the module has %d", len(recorded), err, len(examples))
	}
	if routes != 58 {
		t.Errorf("the examples have %d routes; v1.6.3 has 58", routes)
	}
}

// goldenInputs returns the inputs in testdata/*.in.yaml, by name.
func goldenInputs(t testing.TB) map[string]gatewayapi.Input {
	t.Helper()
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden pairs: %v", err)
	}
	out := map[string]gatewayapi.Input{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, _ := strings.Cut(string(content), "\n---\n")
		var s setting
		strictly(t, []byte(head), &s)
		in := objects(t, []byte(rest))
		for i, m := range s.Managed {
			m.Name, m.RoutingKey, m.Sandbox = or(m.Name, "mine-"+m.TargetService), or(m.RoutingKey, key), or(m.Sandbox, "mine")
			s.Managed[i] = m
		}
		in.Managed, in.Order = s.Managed, orders[s.Order]
		in.RefusePolicies = s.RefusePolicies
		in.CustomHeaders, in.PreservedLabels, in.PreservedAnnotations = s.CustomHeaders, s.PreservedLabels, s.PreservedAnnotations
		for service, by := range s.VirtualServices {
			if in.VirtualServices == nil {
				in.VirtualServices = map[types.NamespacedName]string{}
			}
			namespace, name, _ := strings.Cut(service, "/")
			in.VirtualServices[types.NamespacedName{Namespace: namespace, Name: name}] = by
		}
		out[strings.TrimSuffix(filepath.Base(file), ".in.yaml")] = in
	}
	return out
}

// exampleInputs returns the examples of the module that have a route, by path.
func exampleInputs(t testing.TB) map[string]gatewayapi.Input {
	t.Helper()
	root := filepath.Join(moduleFolder(t), "examples")
	out := map[string]gatewayapi.Input{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		in := objects(t, content)
		if len(in.Routes.HTTP)+len(in.Routes.GRPC) == 0 {
			return nil
		}
		in.Managed = everyService(in.Routes)
		relative, err := filepath.Rel(root, path)
		out[strings.ReplaceAll(strings.TrimSuffix(relative, ".yaml"), "/", ".")] = in
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func moduleFolder(t testing.TB) string {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(folder))
}

// everyService returns a Managed for each Service that the routes refer to, with each port.
func everyService(routes gatewayapi.Routes) []gatewayapi.Managed {
	ports := map[types.NamespacedName][]int32{}
	add := func(namespace string, ref gatewayv1.BackendRef) {
		if ref.Kind != nil && *ref.Kind != "Service" || ref.Group != nil && *ref.Group != "" || ref.Port == nil {
			return
		}
		name := types.NamespacedName{Namespace: namespace, Name: string(ref.Name)}
		if ref.Namespace != nil {
			name.Namespace = string(*ref.Namespace)
		}
		if !slices.Contains(ports[name], int32(*ref.Port)) {
			ports[name] = append(ports[name], int32(*ref.Port))
		}
	}
	for _, r := range routes.HTTP {
		for _, rule := range r.Spec.Rules {
			for _, b := range rule.BackendRefs {
				add(r.Namespace, b.BackendRef)
			}
		}
	}
	for _, r := range routes.GRPC {
		for _, rule := range r.Spec.Rules {
			for _, b := range rule.BackendRefs {
				add(r.Namespace, b.BackendRef)
			}
		}
	}
	var out []gatewayapi.Managed
	for name, all := range ports {
		m := gatewayapi.Managed{Name: "mine-" + name.Name, RoutingKey: key, Sandbox: "mine", Namespace: name.Namespace, TargetService: name.Name}
		for _, p := range all {
			m.Mappings = append(m.Mappings, crdv1.IstioPortMapping{FromPort: p, ToService: "mine-" + name.Name})
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b gatewayapi.Managed) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out
}

// objects parses routes, grants and Services; other kinds are ignored. The default namespace is
// default.
func objects(t testing.TB, content []byte) gatewayapi.Input {
	t.Helper()
	var in gatewayapi.Input
	for _, document := range bytes.Split(content, []byte("\n---")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatal(err)
		}
		switch meta.Kind {
		case precedence.HTTPRoute:
			in.Routes.HTTP = append(in.Routes.HTTP, decoded(t, document, &gatewayv1.HTTPRoute{}))
		case precedence.GRPCRoute:
			in.Routes.GRPC = append(in.Routes.GRPC, decoded(t, document, &gatewayv1.GRPCRoute{}))
		case gatewayapi.KindBackendTLSPolicy:
			in.Routes.TLS = append(in.Routes.TLS, decoded(t, document, &gatewayv1.BackendTLSPolicy{}))
		case "Rollout":
			var o unstructured.Unstructured
			if err := yaml.Unmarshal(document, &o.Object); err != nil {
				t.Fatal(err)
			}
			in.Releases = append(in.Releases, releases.SelectorsOf([]unstructured.Unstructured{o})...)
		case "ReferenceGrant":
			in.Grants = append(in.Grants, decoded(t, document, &gatewayv1.ReferenceGrant{}))
		case "Service":
			in.Services = append(in.Services, decoded(t, document, &corev1.Service{}))
		default:
			in.Policies = append(in.Policies, policyIn(t, document)...)
		}
	}
	return in
}

// policyIn returns the policy in a document, if it has a known kind.
func policyIn(t testing.TB, document []byte) []policies.Policy {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(document, &o.Object); err != nil {
		t.Fatal(err)
	}
	for _, kind := range policies.Kinds(nil) {
		if o.GroupVersionKind().GroupKind() == kind.GroupKind() {
			return []policies.Policy{policies.Read(kind, o.Object)}
		}
	}
	return nil
}

func decoded[O metav1.Object](t testing.TB, document []byte, o O) O {
	t.Helper()
	strictly(t, document, o)
	o.SetNamespace(or(o.GetNamespace(), "default"))
	return o
}

func strictly(t testing.TB, document []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(document, into); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// played returns the result for an input as text, and checks the invariants of all results.
func played(t *testing.T, in gatewayapi.Input) string {
	result := gatewayapi.Derive(in)
	planned(t, in, result)
	adviceApplies(t, in, result)
	var out strings.Builder
	for _, m := range in.Managed {
		for _, row := range result.Matched[m.Name] {
			out.WriteString("# " + m.Name + ": " + row.Baseline.String())
			if row.Derived != nil {
				out.WriteString(" -> " + row.Derived.Name)
			}
			out.WriteString(", " + row.Status + "\n")
		}
	}
	for _, f := range result.Findings {
		level := "note"
		if f.Problem {
			level = "PROBLEM"
		}
		out.WriteString("# " + f.Managed + " " + level + " " + f.Reason + ": " + strings.ReplaceAll(strings.TrimSpace(f.Message), "\n", "\n#   ") + "\n")
	}
	for _, r := range result.Routes.HTTP {
		document(t, &out, r)
	}
	for _, r := range result.Routes.GRPC {
		document(t, &out, r)
	}
	for _, p := range result.Routes.TLS {
		document(t, &out, p)
	}
	return out.String()
}

// document writes an object as YAML, without its empty status.
func document(t *testing.T, out *strings.Builder, o any) {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "\nstatus:\n")
	out.WriteString("---\n" + before + "\n")
}

// planned fails unless the plan turns the current routes into the result and changes only derived
// routes, and a second plan is empty.
func planned(t *testing.T, in gatewayapi.Input, result gatewayapi.Result) {
	t.Helper()
	changes := gatewayapi.Plan(in.Routes, result.Routes)
	after := gatewayapi.Routes{
		HTTP: apply(t, in.Routes.HTTP, changes.Create.HTTP, changes.Update.HTTP, changes.Delete.HTTP),
		GRPC: apply(t, in.Routes.GRPC, changes.Create.GRPC, changes.Update.GRPC, changes.Delete.GRPC),
		TLS:  apply(t, in.Routes.TLS, changes.Create.TLS, changes.Update.TLS, changes.Delete.TLS),
	}
	in.Routes = after
	again := gatewayapi.Derive(in)
	if second := gatewayapi.Plan(after, again.Routes); !second.Empty() {
		t.Errorf("a second plan is not empty: %+v", second)
	}
}

func apply[O metav1.Object](t *testing.T, have, create, update, remove []O) []O {
	t.Helper()
	is := func(o O) func(O) bool {
		return func(p O) bool { return o.GetNamespace() == p.GetNamespace() && o.GetName() == p.GetName() }
	}
	out := slices.Clone(have)
	for _, o := range slices.Concat(update, remove) {
		i := slices.IndexFunc(out, is(o))
		if i < 0 || !gatewayapi.IsDerived(&metav1.ObjectMeta{Labels: out[i].GetLabels()}) {
			t.Fatalf("%s is changed, and is not ours", o.GetName())
		}
		out = slices.Delete(out, i, i+1)
	}
	for _, o := range slices.Concat(create, update) {
		if slices.ContainsFunc(out, is(o)) {
			t.Fatalf("%s is made twice", o.GetName())
		}
		out = append(out, o)
	}
	return out
}
