package crd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"switchyard.dev/tests/world"
)

// server is a real API server that has our CRDs.
type server struct {
	config *rest.Config
	client *dynamic.DynamicClient
	crds   map[string]*apiextensionsv1.CustomResourceDefinition // by kind
}

// TestInAnAPIServer starts one API server and asks it all that only an API
// server can answer.
func TestInAnAPIServer(t *testing.T) {
	s := startServer(t)
	t.Run("full objects are kept whole", s.fullObjectsAreKeptWhole)
	t.Run("minimal objects are kept and get the published defaults", s.minimalObjectsAreKept)
	t.Run("objects without a spec are accepted", s.objectsWithoutSpecAreAccepted)
	t.Run("empty names are accepted, as the published patterns do", s.emptyNamesAreAccepted)
	t.Run("wrong objects are refused with the field and the reason", s.wrongObjectsAreRefused)
	t.Run("a job is written once, but for its cancellation", s.jobsAreWrittenOnce)
	t.Run("tables say what is routed and whether it is ready", s.tablesTellTheState)
	t.Run("a sandbox shows a workload, of whatever kind its members are", s.sandboxesShowABaseline)
	t.Run("short names and categories are known", s.shortNamesAreKnown)
	t.Run("a runner group can be scaled", s.runnerGroupsScale)
}

// startServer starts etcd and an API server with the rendered CRDs and stops
// them when the test ends.
func startServer(t *testing.T) *server {
	t.Helper()
	w := world.New(t)
	client, err := dynamic.NewForConfig(w.Config)
	w.Must(err)
	return &server{config: w.Config, client: client, crds: renderAll(t, nil)}
}

// within returns a context that ends before the test would hang.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// of returns the place of the objects of a kind in a namespace ("" for kinds
// without).
func (s *server) of(kind, namespace string) dynamic.ResourceInterface {
	resource := s.client.Resource(schema.GroupVersionResource{
		Group: "signadot.com", Version: "v1", Resource: s.crds[kind].Spec.Names.Plural,
	})
	if namespace == "" {
		return resource
	}
	return resource.Namespace(namespace)
}

// create creates the object and, when it has one, writes its status, as a
// controller would. It returns what the API server keeps.
func (s *server) create(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	ctx, place := within(t), s.of(object.GetKind(), object.GetNamespace())
	kept, err := place.Create(ctx, object.DeepCopy(), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	t.Cleanup(func() {
		// t.Context has ended when this runs.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := place.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	})
	if status, ok := object.Object["status"]; ok {
		kept.Object["status"] = status
		if _, err = place.UpdateStatus(ctx, kept, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Fatalf("write the status of %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	if kept, err = place.Get(ctx, object.GetName(), metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	return kept
}

func (s *server) fullObjectsAreKeptWhole(t *testing.T) {
	for kind, objects := range readObjects(t) {
		kept := s.create(t, objects.full)
		if diff := cmp.Diff(content(objects.full), content(kept)); diff != "" {
			t.Errorf("%s was changed (-written +kept):\n%s", kind, diff)
		}
	}
}

// content is what the user wrote: spec and status.
func content(object *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for _, part := range []string{"spec", "status"} {
		if value, ok := object.Object[part]; ok {
			out[part] = value
		}
	}
	return out
}

func (s *server) minimalObjectsAreKept(t *testing.T) {
	for kind, objects := range readObjects(t) {
		want := objects.minimal.DeepCopy()
		if kind == "Job" { // the only default that a published spec without it gets
			want.Object["spec"].(map[string]any)["canceled"] = false
		}
		if kind == "TrafficCapture" {
			spec := want.Object["spec"].(map[string]any)
			spec["limits"], spec["samplePercent"] = map[string]any{"bodyBytes": int64(65536)}, int64(100)
		}
		if diff := cmp.Diff(content(want), content(s.create(t, objects.minimal))); diff != "" {
			t.Errorf("%s (-want +kept):\n%s", kind, diff)
		}
	}
}

func (s *server) objectsWithoutSpecAreAccepted(t *testing.T) {
	for kind, c := range s.crds {
		if slices.Contains(added, kind) {
			continue // Only the published kinds have to accept an object without a spec.
		}
		bare := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "signadot.com/v1", "kind": kind}}
		bare.SetName("bare")
		if c.Spec.Scope == apiextensionsv1.NamespaceScoped {
			bare.SetNamespace("default")
		}
		if kept := s.create(t, bare); len(content(kept)) != 0 {
			t.Errorf("%s got a content of its own: %v", kind, content(kept))
		}
	}
}

func (s *server) shortNamesAreKnown(t *testing.T) {
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.ServerResourcesForGroupVersion("signadot.com/v1")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			found[r.Kind] = fmt.Sprint(r.ShortNames, r.Categories)
		}
	}
	want := map[string]string{}
	for kind, c := range s.crds {
		want[kind] = fmt.Sprint(c.Spec.Names.ShortNames, []string{"signadot", "switchyard"})
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +found):\n%s", diff)
	}
}

func (s *server) runnerGroupsScale(t *testing.T) {
	group := readObjects(t)["JobRunnerGroup"].full
	s.create(t, group)
	place := s.of("JobRunnerGroup", group.GetNamespace())
	scale, err := place.Get(within(t), group.GetName(), metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"spec": map[string]any{}, "status": map[string]any{"replicas": int64(3), "selector": "app=runner"}}
	if diff := cmp.Diff(want, content(scale)); diff != "" {
		t.Errorf("scale (-want +have):\n%s", diff)
	}
	scale.Object["spec"] = map[string]any{"replicas": int64(5)}
	if _, err := place.Update(within(t), scale, metav1.UpdateOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	kept, err := place.Get(within(t), group.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if replicas, _, _ := unstructured.NestedInt64(kept.Object, "spec", "replicas"); replicas != 5 {
		t.Errorf("after scaling to 5 the group asks for %d", replicas)
	}
}

// table asks for all objects of a kind as kubectl get does: column names, and
// one row for each object, by its name.
func (s *server) table(t *testing.T, kind string) map[string]map[string]any {
	t.Helper()
	config := rest.CopyConfig(s.config)
	config.GroupVersion = &schema.GroupVersion{Group: "signadot.com", Version: "v1"}
	config.APIPath = "/apis"
	config.NegotiatedSerializer = metav1Codecs()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := client.Get().Resource(s.crds[kind].Spec.Names.Plural).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(within(t))
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, row := range table.Rows {
		cells := map[string]any{}
		for i, column := range table.ColumnDefinitions {
			cells[column.Name] = row.Cells[i]
		}
		out[fmt.Sprint(row.Cells[0])] = cells
	}
	return out
}

func (s *server) tablesTellTheState(t *testing.T) {
	want := map[string]map[string]any{
		"SignadotSandbox":    {"Sandbox": "customer-Feature-1", "Routing-Key": "ltj9s8scupb86", "Baseline": "customer", "Forks": 2.0, "Forks-Ready": 1.0},
		"SignadotRouteGroup": {"Routing-Key": "4835rlwxwbwyl", "Sandboxes": 2.0, "Sandboxes-Ready": 1.0},
		"ForkedWorkload":     {"Baseline": "customer", "Sandbox": "customer-Feature-1", "Routing-Key": "ltj9s8scupb86", "Fork": "sb1-customer-0a1b2c3d"},
		"RoutingConfig":      {"Routing-Key": "ltj9s8scupb86", "Workload": "sb1-customer-0a1b2c3d", "From": "customer.shop.svc", "To": "sb1-customer-ffc3f8f0.shop.svc"},
		"IstioRoute":         {"Routing-Key": "ltj9s8scupb86", "Service": "customer", "To": "sb1-customer-ffc3f8f0", "Virtual-Service": "customer"},
		"GatewayAPIRoute":    {"Routing-Key": "ltj9s8scupb86", "Service": "customer", "To": "sb1-customer-ffc3f8f0", "Route": "shop"},
		"Resource":           {"Resource": "db", "Plugin": "postgres", "Phase": "Created"},
		"Job":                {"Group": "runners", "Runner": "runner-0"},
		"TrafficCapture":     {"Sandbox": "feature-x", "Workload": "cart", "Seen": 10},
	}
	for kind, objects := range readObjects(t) {
		s.create(t, objects.full)
		row := s.table(t, kind)[objects.full.GetName()]
		if row == nil {
			t.Errorf("%s: the table has no row for %s", kind, objects.full.GetName())
			continue
		}
		cells := want[kind]
		if cells == nil {
			cells = map[string]any{}
		}
		if kind != "Job" {
			cells["Ready"], cells["Reason"], cells["Message"] = "True", "AllWell", "All desired workloads are available."
			if since := fmt.Sprint(row["Since"]); !strings.HasSuffix(since, "d") && !strings.HasSuffix(since, "y") {
				t.Errorf("%s: Since is %q, want days since 2025", kind, since)
			}
		}
		for column, cell := range cells {
			if fmt.Sprint(row[column]) != fmt.Sprint(cell) {
				t.Errorf("%s: column %s says %v, want %v; the row is %v", kind, column, row[column], cell, row)
			}
		}
	}
}

func (s *server) sandboxesShowABaseline(t *testing.T) {
	full := readObjects(t)["SignadotSandbox"].full
	for _, tt := range []struct {
		name    string
		without [][]string
		want    any
	}{
		{"forks", nil, "customer"},
		{"externals", [][]string{{"status", "forkedWorkloads"}}, "route"},
		{"virtuals", [][]string{{"status", "forkedWorkloads"}, {"spec", "externalWorkloads"}, {"status", "externalWorkloads"}}, "frontend"},
		{"nothing", [][]string{{"status"}, {"spec"}}, nil},
	} {
		o := full.DeepCopy()
		o.SetName(tt.name)
		for _, path := range tt.without {
			unstructured.RemoveNestedField(o.Object, path...)
		}
		s.create(t, o)
		if got := s.table(t, "SignadotSandbox")[tt.name]["Baseline"]; got != tt.want {
			t.Errorf("a sandbox with %s shows %v, not %v", tt.name, got, tt.want)
		}
	}
}
