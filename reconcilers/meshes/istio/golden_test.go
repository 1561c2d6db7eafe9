package istio_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/releases"
	"switchyard.dev/tests/golden"
)

// situation is the first document of a case: the inputs other than VirtualServices.
type situation struct {
	// About describes the case.
	About    string          `json:"about"`
	Settings istio.Settings  `json:"settings"`
	Services []istio.Service `json:"services"`
}

// key is the routing key of most cases.
const key = "k7q2"

// TestGoldenPairs renders the objects of each case and compares the result with the reviewed golden file.
func TestGoldenPairs(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			documents := strings.Split(string(text), "\n---\n")
			var given situation
			if err := yaml.UnmarshalStrict([]byte(documents[0]), &given); err != nil {
				t.Fatal(err)
			}
			if given.Settings.ClusterDomain == "" {
				given.Settings.ClusterDomain = "cluster.local"
			}
			var objects []*unstructured.Unstructured
			var rollouts []unstructured.Unstructured
			for _, document := range documents[1:] {
				if object := parse(t, document); object.GetKind() == "Rollout" {
					rollouts = append(rollouts, *object)
				} else {
					objects = append(objects, object)
				}
			}
			given.Settings.Inferring = releases.Inferring(rollouts)
			golden.Compare(t, strings.Replace(file, ".in.", ".out.", 1), rendered(t, given, objects))
		})
	}
}

func parse(t testing.TB, document string) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	if object.GetNamespace() == "" {
		object.SetNamespace("default")
	}
	return object
}

// rendered returns the results of a case as text, and checks the invariants of all renderings.
func rendered(t *testing.T, given situation, objects []*unstructured.Unstructured) string {
	t.Helper()
	m := istio.New(given.Settings, given.Services, objects)
	var out bytes.Buffer
	var renderings []istio.Rendering
	for _, object := range objects {
		r := m.Render(object)
		renderings = append(renderings, r)
		lawful(t, m, object, r)
		if !r.Changed {
			fmt.Fprintf(&out, "# VirtualService %s: unchanged\n", r.Name)
			continue
		}
		text, err := yaml.Marshal(r.Object.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s---\n", text)
	}
	for _, s := range given.Services {
		for _, sandbox := range s.Sandboxes {
			id := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
			report := m.Report(id, sandbox.Key, renderings)
			for _, f := range report.Findings {
				adviceApplies(t, given, objects, sandbox.Key, f)
			}
			fmt.Fprintf(&out, "# Service %s, key %.40s\n", id, sandbox.Key)
			for _, match := range report.Matched {
				fmt.Fprintf(&out, "#   %s/%s %s: %s\n", match.Namespace, match.Name, match.Status, match.Message)
			}
			for _, f := range report.Findings {
				lost := ""
				if f.Lost {
					lost = " (lost)"
				}
				fmt.Fprintf(&out, "#   %s%s: %s\n", f.Reason, lost, f.Message)
			}
		}
	}
	return out.String()
}

// TestEveryExampleOfIstio renders each VirtualService in the comments of Istio's
// virtual_service.proto, with a sandbox of every Service of the cluster that it names.
func TestEveryExampleOfIstio(t *testing.T) {
	examples := examplesOfIstio(t)
	if len(examples) < 20 {
		t.Fatalf("%d examples", len(examples))
	}
	var recorded []string
	for i, example := range examples {
		name := fmt.Sprintf("%02d-%s", i+1, example.GetName())
		recorded = append(recorded, name+".out.yaml")
		t.Run(name, func(t *testing.T) {
			objects := append([]*unstructured.Unstructured{example}, related(example, examples)...)
			given := situation{Settings: istio.Settings{ClusterDomain: "cluster.local"}, Services: servicesOf(t, objects)}
			golden.Compare(t, filepath.Join("testdata", "examples", name+".out.yaml"), rendered(t, given, objects))
		})
	}
	there, err := filepath.Glob("testdata/examples/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range there {
		if !slices.Contains(recorded, filepath.Base(file)) {
			t.Errorf("%s is of no example", file)
		}
	}
}

// examplesOfIstio returns the VirtualServices in the comments, in order.
func examplesOfIstio(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "networking", "v1alpha3", "virtual_service.proto"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(regexp.MustCompile(`(?m)^ *// ?`).ReplaceAllString(string(source), ""), -1)
	var all []*unstructured.Unstructured
	for _, block := range blocks {
		for document := range strings.SplitSeq(block[1], "\n---\n") {
			if strings.Contains(document, "kind: VirtualService") {
				all = append(all, parse(t, strings.ReplaceAll(document, "  ...\n", "")))
			}
		}
	}
	if n := strings.Count(string(source), "kind: VirtualService\n"); n != len(all) {
		t.Fatalf("%d of %d examples found", len(all), n)
	}
	return all
}

// related returns the examples that one delegates to, or that delegate to it.
func related(one *unstructured.Unstructured, examples []*unstructured.Unstructured) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, other := range examples {
		if delegates(one, other) || delegates(other, one) {
			all = append(all, other)
		}
	}
	return all
}

// delegates reports whether a route of root delegates to another VirtualService.
func delegates(root, to *unstructured.Unstructured) bool {
	routes, _, _ := unstructured.NestedSlice(root.Object, "spec", "http")
	return slices.ContainsFunc(routes, func(route any) bool {
		name, _, _ := unstructured.NestedString(route.(map[string]any), "delegate", "name")
		namespace, _, _ := unstructured.NestedString(route.(map[string]any), "delegate", "namespace")
		return to.GetName() == name && to.GetNamespace() == namespace
	})
}

// servicesOf returns the Services of the cluster that VirtualServices name as hosts, each with
// a sandbox.
func servicesOf(t *testing.T, objects []*unstructured.Unstructured) []istio.Service {
	t.Helper()
	var all []istio.Service
	seen := map[[2]string]bool{}
	for _, object := range objects {
		text, err := yaml.Marshal(object.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`host: ([A-Za-z0-9.-]+)`).FindAllStringSubmatch(string(text), -1) {
			name, namespace, full := strings.Cut(found[1], ".")
			namespace, inCluster := strings.CutSuffix(namespace, ".svc.cluster.local")
			if !full {
				namespace = object.GetNamespace()
			}
			if id := [2]string{namespace, name}; full && !inCluster || seen[id] {
				continue
			}
			seen[[2]string{namespace, name}] = true
			all = append(all, istio.Service{Namespace: namespace, Name: name, Ports: []int32{8080}, Sandboxes: []istio.Sandbox{
				{Key: key, Mappings: []crdv1.IstioPortMapping{{FromPort: 8080, ToService: name + "-" + key}}},
			}})
		}
	}
	return all
}
