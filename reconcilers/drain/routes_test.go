package drain_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

func kinds() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := kubernetesscheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, crdv1.AddToScheme(s)
}

// drainer returns a client with the rights that the chart gives, and more.
func drainer(w *world.World, user string, more ...rbacv1.PolicyRule) client.Client {
	w.Helper()
	w.Grant(user, "", append(more,
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"*"}, Verbs: []string{"list", "delete", "patch", "get"}},
		rbacv1.PolicyRule{APIGroups: []string{"", "apps", "discovery.k8s.io"}, Resources: []string{"services", "endpoints", "deployments", "endpointslices"}, Verbs: []string{"list", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "delete", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}})...)
	return w.ClientWith(w.As(user), kinds)
}

// virtualServices is the right to take routes out, which the chart gives while Istio is on.
var virtualServices = rbacv1.PolicyRule{APIGroups: []string{"networking.istio.io"}, Resources: []string{"virtualservices"}, Verbs: []string{"list", "get", "patch"}}

// routed makes a VirtualService with routes of a sandbox in it, and returns what its owner wrote.
func routed(w *world.World, ns string) *unstructured.Unstructured {
	w.Helper()
	owners := &unstructured.Unstructured{}
	w.Read(owners, `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: customer, namespace: `+ns+`, labels: {of: owner}},
  spec: {hosts: [customer], http: [{name: all, route: [{destination: {host: customer}}]}]}}`)
	mesh := istio.New(istio.Settings{ClusterDomain: "cluster.local", Labels: map[string]string{"in-use": "yes"}},
		[]istio.Service{{Namespace: ns, Name: "customer", Ports: []int32{80}, Sandboxes: []istio.Sandbox{
			{Key: "k1", Mappings: []crdv1.IstioPortMapping{{FromPort: 80, ToService: "of-k1"}}}}}}, []*unstructured.Unstructured{owners})
	with := owners.DeepCopy()
	w.Must(w.Client.Create(w.Context(), with, client.FieldOwner("owner")))
	with = mesh.Render(with).Object
	annotations := with.GetAnnotations()
	annotations[istioadapter.AnnotationRoutes] = "digest"
	with.SetAnnotations(annotations)
	w.Must(w.Client.Update(w.Context(), with, client.FieldOwner(crdv1.FieldManager)))
	return owners
}

// theirs fails unless a VirtualService is as its owner wrote it.
func theirs(w *world.World, owners *unstructured.Unstructured) {
	w.Helper()
	now := owners.DeepCopy()
	w.Get(now)
	for _, e := range now.GetManagedFields() {
		if e.Manager == crdv1.FieldManager {
			w.Errorf("it is noted as ours in part: %s", e.FieldsV1)
		}
	}
	if diff := cmp.Diff(owners.Object["spec"], now.Object["spec"]) + cmp.Diff(owners.GetLabels(), now.GetLabels()) + cmp.Diff(owners.GetAnnotations(), now.GetAnnotations()); diff != "" {
		w.Errorf("it is not as its owner wrote it: %s", diff)
	}
}

// route creates an IstioRoute with a status that a VirtualService has routes.
func route(w *world.World, name, ns string, owner *crdv1.RoutingConfig) *crdv1.IstioRoute {
	w.Helper()
	r := &crdv1.IstioRoute{}
	w.Read(r, `{apiVersion: signadot.com/v1, kind: IstioRoute, metadata: {name: `+name+`}, spec: {routingKey: k1, managed: {
  baseline: {kind: Deployment, namespace: `+ns+`, name: customer}, namespace: `+ns+`, targetService: customer,
  mappings: [{fromPort: 80, toService: of-k1}], sandboxedWorkload: {kind: ForkedWorkload, namespace: `+ns+`, name: of-k1}}}}`)
	if owner != nil {
		r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, crdv1.GroupVersion().WithKind(crdv1.KindRoutingConfig))}
	}
	w.Create(r)
	r.Status.MatchedVirtualServices = []crdv1.VirtualServiceMatch{
		{Namespace: ns, Name: "customer", Status: istio.StatusApplied}, {Namespace: ns, Name: "other", Status: istio.StatusSkipped}}
	w.Must(w.Client.Status().Update(w.Context(), r))
	return r
}

// TestRoutesAreTakenOutOfVirtualServices drains a cluster without a manager.
func TestRoutesAreTakenOutOfVirtualServices(t *testing.T) {
	w := world.Shared(t)
	w.DefineIstio()
	c := drainer(w, "drain-on", virtualServices)
	for _, keep := range []bool{true, false} {
		owners := routed(w, w.NewNamespace("routed"))
		var told bytes.Buffer
		err := drain.Run(t.Context(), drain.Config{Client: c, Wait: time.Millisecond, Keep: keep, Logger: slog.New(slog.NewTextHandler(&told, nil))})
		if err != nil {
			t.Fatalf("%v\n%s", err, &told)
		}
		theirs(w, owners)
		w.Says(told.String(), "taken out WITHOUT IT", "VirtualService "+owners.GetNamespace()+"/customer")
	}
}

// TestRemainingRoutesAreLogged drains a cluster in which Istio is off: there is no right to read
// VirtualServices.
func TestRemainingRoutesAreLogged(t *testing.T) {
	w := world.Shared(t)
	w.DefineIstio()
	c := drainer(w, "drain-off")
	for name, keep := range map[string]bool{"keep": true, "all": false} {
		t.Run(name, func(t *testing.T) {
			w := w.In(t)
			ns := w.NewNamespace("left")
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other"}})
			owner := &crdv1.RoutingConfig{}
			w.Make(owner, `{apiVersion: signadot.com/v1, kind: RoutingConfig, metadata: {name: `+ns+`}, spec: {sandboxedWorkloads: []}}`)
			made := route(w, ns+"-made", ns, owner)
			var told bytes.Buffer
			err := drain.Run(t.Context(), drain.Config{Client: c, Wait: time.Millisecond, Keep: keep, Logger: slog.New(slog.NewTextHandler(&told, nil))})
			if err != nil {
				t.Fatalf("%v\n%s", err, &told)
			}
			w.Gone(made)
			last := told.String()[strings.Index(told.String(), "routes of sandboxes stay"):]
			w.Says(last, "has no right to remove them", "Apply each again", `stay in"="VirtualService `+ns+`/customer"`)
			w.Says(last[strings.Index(last, "\n"):], "VirtualService "+ns+"/customer")
			if strings.Contains(last, ns+"/other") {
				t.Errorf("it tells of a VirtualService without routes:\n%s", last)
			}
		})
	}
	t.Run("nothing known", func(t *testing.T) {
		var told bytes.Buffer
		w.Must(drain.Run(t.Context(), drain.Config{Client: c, Logger: slog.New(slog.NewTextHandler(&told, nil))}))
		w.In(t).Says(told.String(), "is not known", istioadapter.AnnotationRoutes)
	})
}

// TestDerivedRoutesGo drains a cluster without a manager and without a garbage collector.
func TestDerivedRoutesGo(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	on := drainer(w, "drain-derived", rbacv1.PolicyRule{APIGroups: []string{"gateway.networking.k8s.io"}, Resources: []string{"httproutes", "grpcroutes", "backendtlspolicies"}, Verbs: []string{"list", "delete"}})
	off := drainer(w, "drain-underived")
	const route = "{parentRefs: [{name: edge}], rules: [{backendRefs: [{name: customer, port: 80}]}]}"
	for kind, spec := range map[string]string{
		"HTTPRoute": route, "GRPCRoute": route,
		"BackendTLSPolicy": `{targetRefs: [{group: "", kind: Service, name: customer}], validation: {hostname: customer.test, wellKnownCACertificates: System}}`,
	} {
		for _, keep := range []bool{true, false} {
			ns := w.NewNamespace("derived")
			makes := func(metadata string) *unstructured.Unstructured {
				r := &unstructured.Unstructured{}
				w.Make(r, `{apiVersion: gateway.networking.k8s.io/v1, kind: `+kind+`, metadata: {namespace: `+ns+`, `+metadata+`},
  spec: `+spec+`}`)
				return r
			}
			owners := makes(`name: customer, labels: {app.kubernetes.io/managed-by: switchyard}`)
			ours := makes(`name: customer-k1, labels: {app.kubernetes.io/managed-by: switchyard, signadot.com/routing-key: k1}`)
			tampered := makes(`name: customer-k2, ownerReferences: [{apiVersion: signadot.com/v1, kind: GatewayAPIRoute, name: r, uid: u}]`)
			var told bytes.Buffer
			settings := drain.Config{Client: off, Wait: time.Millisecond, Keep: keep, Logger: slog.New(slog.NewTextHandler(&told, nil))}
			w.Must(drain.Run(t.Context(), settings))
			w.Get(ours) // Without the right it is left to the garbage collection.
			settings.Client = on
			if err := drain.Run(t.Context(), settings); err != nil {
				t.Fatalf("%v\n%s", err, &told)
			}
			w.Gone(ours)
			w.Gone(tampered)
			w.Get(owners)
			w.Says(told.String(), "deleted WITHOUT THEM", kind+" "+ns+"/customer-k1")
		}
	}
}

// TestCopiesOfRulesAreDeleted drains a cluster without a manager and without garbage collection: without the
// right to DestinationRules, then with it.
func TestCopiesOfRulesAreDeleted(t *testing.T) {
	w := world.Shared(t)
	w.DefineIstio()
	off := drainer(w, "drain-no-rules", virtualServices)
	on := drainer(w, "drain-rules", virtualServices, rbacv1.PolicyRule{APIGroups: []string{"networking.istio.io"}, Resources: []string{"destinationrules"}, Verbs: []string{"list", "delete"}})
	for _, keep := range []bool{true, false} {
		ns := w.NewNamespace("copies")
		owners := routed(w, ns)
		makes := func(metadata string) *unstructured.Unstructured {
			r := &unstructured.Unstructured{}
			w.Make(r, `{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {namespace: `+ns+`, `+metadata+`}, spec: {host: customer}}`)
			return r
		}
		stay := []*unstructured.Unstructured{makes(`name: customer`), makes(`name: customer-copy, labels: {istio.signadot.com/derived: "true"}`), makes(`name: signadot-1`)}
		derived := makes(`name: signadot-2, labels: {istio.signadot.com/derived: "true"}`)
		var told bytes.Buffer
		settings := drain.Config{Client: off, Wait: time.Millisecond, Keep: keep, Logger: slog.New(slog.NewTextHandler(&told, nil))}
		w.Must(drain.Run(t.Context(), settings))
		w.Get(derived)
		w.Says(told.String(), "whether derived DestinationRules are left is not known", "-l istio.signadot.com/derived=true")
		settings.Client = on
		if err := drain.Run(t.Context(), settings); err != nil {
			t.Fatalf("%v\n%s", err, &told)
		}
		theirs(w, owners)
		w.Gone(derived)
		for _, o := range stay {
			w.Get(o)
		}
		w.Says(told.String(), "DestinationRule "+ns+"/signadot-2")
	}
}

// TestIstioRoutesOfPeopleStay drains a cluster with an IstioRoute that the operator did not create.
func TestIstioRoutesOfPeopleStay(t *testing.T) {
	w := world.Shared(t)
	for name, keep := range map[string]bool{"keep": true, "all": false} {
		t.Run(name, func(t *testing.T) {
			w := w.In(t)
			mine := route(w, "by-hand-"+name, "default", nil)
			before := mine.ResourceVersion
			var told bytes.Buffer
			err := drain.Run(t.Context(), drain.Config{Client: drainer(w, "drain-people-"+name), Wait: time.Millisecond, Keep: keep, Logger: slog.New(slog.NewTextHandler(&told, nil))})
			if err != nil {
				t.Fatalf("%v\n%s", err, &told)
			}
			w.Says(told.String(), "IstioRoute by-hand-"+name)
			if w.Get(mine); mine.ResourceVersion != before {
				t.Errorf("it was changed: %+v", mine)
			}
			w.Remove(mine)
		})
	}
}
