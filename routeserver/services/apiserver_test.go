package services_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/routeserver/services"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/wait"
)

// On a real API server, as an account that first may read nothing, as before
// the role is bound, and then what the chart's role gives it. The test writes
// the EndpointSlices as the controller would, which does not run here.
func TestTheListerOnARealAPIServer(t *testing.T) {
	server, err := apiserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := cluster{t, kubernetes.NewForConfigOrDie(server.Config)}
	c.create(headless("db"), service("customer", ""))
	c.endpoints(slice("db", "1", discoveryv1.AddressTypeIPv4, 5432, at("db-0", "10.1.0.1", nil)))

	as := rest.CopyConfig(server.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:signadot:routeserver"}
	lister := run(t, kubernetes.NewForConfigOrDie(as))
	for _, kind := range []string{"services", "endpointslices"} {
		eventually(t, "the reason, for "+kind, func() bool {
			_, err := lister.List(t.Context())
			return err != nil && strings.Contains(err.Error(), kind) && strings.Contains(err.Error(), "forbidden")
		})
	}
	c.allow()
	lists := func(what string, want ...string) {
		t.Helper()
		eventually(t, what, func() bool { return slices.Equal(hosts(t, lister), want) })
	}
	lists("the lists", "customer.shop.svc", "db-0.db.shop.svc", "kubernetes.default.svc")
	c.create(service("route", ""))
	lists("a new Service", "customer.shop.svc", "db-0.db.shop.svc", "kubernetes.default.svc", "route.shop.svc")
	c.endpoints(slice("db", "1", discoveryv1.AddressTypeIPv4, 5432, at("db-1", "10.1.0.2", nil)))
	lists("another host", "customer.shop.svc", "db-1.db.shop.svc", "kubernetes.default.svc", "route.shop.svc")
}

type cluster struct {
	t      *testing.T
	client kubernetes.Interface
}

// create creates Services, and their namespace with the first.
func (c cluster) create(all ...*corev1.Service) {
	c.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if _, err := c.client.CoreV1().Namespaces().Get(c.t.Context(), "shop", metav1.GetOptions{}); err != nil {
		_, err := c.client.CoreV1().Namespaces().Create(c.t.Context(), namespace, metav1.CreateOptions{})
		c.must(err)
	}
	for _, s := range all {
		_, err := c.client.CoreV1().Services("shop").Create(c.t.Context(), s, metav1.CreateOptions{})
		c.must(err)
	}
}

// endpoints creates an EndpointSlice, in the place of the one of that name.
func (c cluster) endpoints(s *discoveryv1.EndpointSlice) {
	c.t.Helper()
	of := c.client.DiscoveryV1().EndpointSlices("shop")
	if _, err := of.Get(c.t.Context(), s.Name, metav1.GetOptions{}); err == nil {
		_, err := of.Update(c.t.Context(), s, metav1.UpdateOptions{})
		c.must(err)
		return
	}
	_, err := of.Create(c.t.Context(), s, metav1.CreateOptions{})
	c.must(err)
}

// allow binds a role to the route server, with what the chart gives it here.
func (c cluster) allow() {
	c.t.Helper()
	name := metav1.ObjectMeta{Name: "routeserver"}
	read := []string{"list", "watch"}
	_, err := c.client.RbacV1().ClusterRoles().Create(c.t.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
	}}, metav1.CreateOptions{})
	c.must(err)
	_, err = c.client.RbacV1().ClusterRoleBindings().Create(c.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "routeserver"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "signadot", Name: "routeserver"}},
	}, metav1.CreateOptions{})
	c.must(err)
}

func (c cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func run(t *testing.T, client kubernetes.Interface) *services.Lister {
	t.Helper()
	lister, err := services.New(client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { lister.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return lister
}

func hosts(t *testing.T, l *services.Lister) []string {
	list, err := l.List(t.Context())
	if err != nil {
		return []string{err.Error()}
	}
	var names []string
	for _, s := range list {
		names = append(names, s.GetHostname())
	}
	return names
}

// eventually waits for what has to come.
var eventually = wait.Holds
