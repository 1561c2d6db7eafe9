package services_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/routeserver/services"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
)

// On a real API server, as an account that first may read nothing, as before
// the role is bound, and then what the chart's role gives it. The test writes
// the EndpointSlices as the controller would, which does not run here.
func TestTheListerOnARealAPIServer(t *testing.T) {
	w := world.New(t)
	w.Namespaces("shop")
	create := func(services ...*corev1.Service) {
		for _, s := range services {
			s.Namespace = "shop"
			w.Create(s)
		}
	}
	create(headless("db"), service("customer", ""))
	w.Create(slice("db", "1", discoveryv1.AddressTypeIPv4, 5432, at("db-0", "10.1.0.1", nil)))

	const account = "system:serviceaccount:signadot:routeserver"
	lister := run(t, kubernetes.NewForConfigOrDie(w.As(account)))
	for _, kind := range []string{"services", "endpointslices"} {
		eventually(t, "the reason, for "+kind, func() bool {
			_, err := lister.List(t.Context())
			return err != nil && strings.Contains(err.Error(), kind) && strings.Contains(err.Error(), "forbidden")
		})
	}
	read := []string{"list", "watch"}
	w.Grant(account, "", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read})
	lists := func(what string, want ...string) {
		t.Helper()
		eventually(t, what, func() bool { return slices.Equal(hosts(t, lister), want) })
	}
	lists("the lists", "customer.shop.svc", "db-0.db.shop.svc", "kubernetes.default.svc")
	create(service("route", ""))
	lists("a new Service", "customer.shop.svc", "db-0.db.shop.svc", "kubernetes.default.svc", "route.shop.svc")
	w.Must(w.Client.Update(t.Context(), slice("db", "1", discoveryv1.AddressTypeIPv4, 5432, at("db-1", "10.1.0.2", nil))))
	lists("another host", "customer.shop.svc", "db-1.db.shop.svc", "kubernetes.default.svc", "route.shop.svc")
}

func run(t *testing.T, client kubernetes.Interface) *services.Lister {
	t.Helper()
	lister, err := services.New(client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, func(ctx context.Context) error { lister.Run(ctx); return nil })
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
