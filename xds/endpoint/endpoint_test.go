package endpoint_test

import (
	"log/slog"
	"net/netip"
	"os"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/xds/endpoint"
	"switchyard.dev/xds/identify"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

var customer = table.Workload{Kind: "Deployment", Namespace: "default", Name: "customer"}

// cluster is a real API server, without controllers: the test creates their objects.
type cluster struct{ *world.World }

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{world.New(t)}
	c.Accounts("default", "app")
	return c
}

// owner is a controller's reference to its own.
func owner(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
}

func template(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "app", Containers: []corev1.Container{{Name: "app", Image: "app"}},
		},
	}
}

// replicaSet makes the ReplicaSet of a Deployment or Rollout.
func (c *cluster) replicaSet(name string, owners []metav1.OwnerReference) *appsv1.ReplicaSet {
	c.Helper()
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: owners},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name),
		},
	}
	c.Create(set)
	return set
}

// pod makes a pod and a token for it, for the audience.
func (c *cluster) pod(name, audience string, owners []metav1.OwnerReference) string {
	c.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: owners}, Spec: template(name).Spec}
	c.Create(pod)
	return c.token(audience, pod)
}

func (c *cluster) token(audience string, of *corev1.Pod) string {
	c.Helper()
	return c.Token("default", "app", audience, of)
}

// deployed makes a Deployment's ReplicaSet and returns what a pod of it has as
// owner.
func (c *cluster) deployed(name string) []metav1.OwnerReference {
	set := c.replicaSet(name+"-5f6d", owner("apps/v1", "Deployment", name, "uid-of-"+types.UID(name)))
	return owner("apps/v1", "ReplicaSet", set.Name, set.UID)
}

func TestAPodGetsTheRoutesOfItsOwnWorkloadByItsToken(t *testing.T) {
	if identify.Audience != devmesh.TokenAudience {
		t.Fatalf("sidecars ask for tokens for %q, and %q is wanted", devmesh.TokenAudience, identify.Audience)
	}
	c, board := newCluster(t), xdstest.NewBoard(t)
	board.Declare(xdstest.Fork{
		Baseline: customer, Key: "k1", Sandbox: "sb", Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.1:80"),
	})
	board.Complete()
	e, err := endpoint.New(endpoint.Config{
		View: board.View, Client: c.Kube, Address: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, e.Run)
	conn := xdstest.Dial(t, e.Address())
	serves := func(token string, w table.Workload) {
		t.Helper()
		client := xdstest.Open(t, conn, token)
		defer client.Close()
		client.Subscribe(translate.RouteName(w))
		if r := client.Next(); len(r.Resources) != 1 || r.Resources[0].Name != translate.RouteName(w) {
			t.Errorf("got %v", r)
		}
	}
	refuses := func(why, token string, w table.Workload, want codes.Code) {
		t.Helper()
		client := xdstest.Open(t, conn, token)
		defer client.Close()
		client.Subscribe(translate.RouteName(w))
		if err := client.Ended(); status.Code(err) != want {
			t.Errorf("%s: got %v, want %v", why, err, want)
		}
	}

	ofCustomer := c.deployed("customer")
	known := c.pod("customer-5f6d-a", identify.Audience, ofCustomer)
	serves(known, customer)
	serves(c.pod("rolled", identify.Audience, owner("apps/v1", "ReplicaSet", "roll-1",
		c.replicaSet("roll-1", owner("argoproj.io/v1alpha1", "Rollout", "roll", "r")).UID)),
		table.Workload{Kind: "ArgoRollout", Namespace: "default", Name: "roll"})

	refuses("another workload's routes", known, table.Workload{Kind: "Deployment", Namespace: "default", Name: "driver"}, codes.PermissionDenied)
	refuses("no token", "", customer, codes.Unauthenticated)
	refuses("a made-up token", "a.b.c", customer, codes.Unauthenticated)
	refuses("a token for another audience", c.pod("customer-5f6d-b", "eventbus.signadot.svc", ofCustomer), customer, codes.Unauthenticated)
	refuses("a token of no pod", c.token(identify.Audience, nil), customer, codes.PermissionDenied)
	refuses("a pod of nobody's", c.pod("alone", identify.Audience, nil), customer, codes.PermissionDenied)
	refuses("a pod that points at a ReplicaSet by another UID",
		c.pod("false", identify.Audience, owner("apps/v1", "ReplicaSet", "customer-5f6d", "made-up")), customer, codes.Unauthenticated)
	gone := c.pod("customer-5f6d-c", identify.Audience, ofCustomer)
	c.Remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "customer-5f6d-c"}})
	refuses("a pod that is gone", gone, customer, codes.Unauthenticated)

	// Without the API server an identified sidecar stays known, for a while.
	unknown := c.pod("customer-5f6d-d", identify.Audience, ofCustomer)
	c.Must(c.Kill())
	serves(known, customer)
	refuses("a stranger while the API server is away", unknown, customer, codes.Unavailable)
}
