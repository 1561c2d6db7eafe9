package services_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/services"
)

func TestDescribe(t *testing.T) {
	http2 := "kubernetes.io/h2c"
	baseline := service("customer", "10.0.0.2")
	baseline.Spec.Ports[0].AppProtocol = &http2
	fork := service("sb-customer-1a2b3c4d", "10.0.0.3")
	fork.Annotations = map[string]string{"signadot.com/routing-key": "4835rlwxwbwyl", "signadot.com/baseline-service": "shop/customer"}
	odd := service("odd", "10.0.0.4")
	odd.Annotations = map[string]string{"signadot.com/routing-key": "k", "signadot.com/baseline-service": "without-a-namespace"}
	got := services.Describe([]*corev1.Service{fork, odd, service("headless", corev1.ClusterIPNone), service("external-name", ""), baseline})
	want := []*routesv1.ClusterService{
		{ServiceIp: "10.0.0.2", Hostname: "customer.shop.svc", Ports: []*routesv1.ClusterServicePort{{Name: "http", Port: 80, Protocol: "TCP", AppProtocol: http2}}},
		{ServiceIp: "10.0.0.4", Hostname: "odd.shop.svc", Ports: []*routesv1.ClusterServicePort{{Name: "http", Port: 80, Protocol: "TCP"}}},
		{ServiceIp: "10.0.0.3", Hostname: "sb-customer-1a2b3c4d.shop.svc", Ports: []*routesv1.ClusterServicePort{{Name: "http", Port: 80, Protocol: "TCP"}},
			SandboxInfo: &routesv1.SandboxedClusterService{SandboxRoutingKey: "4835rlwxwbwyl", BaselineHostname: "customer.shop.svc"}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The Lister speaks HTTP with something that first refuses, as an API server
// does before the role is bound, and then lists and watches.
func TestListerSaysWhyItKnowsNothingAndThenWhatThereIs(t *testing.T) {
	api := &apiServer{refuse: true, events: make(chan []byte, 1)}
	server := httptest.NewServer(api)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	lister, err := services.New(client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { lister.Run(ctx) })
	defer running.Wait()
	defer cancel()

	eventually(t, "the reason", func() bool {
		_, err := lister.List(t.Context())
		return err != nil && strings.Contains(err.Error(), "forbidden")
	})
	api.allow(service("customer", "10.0.0.2"))
	eventually(t, "the list", func() bool { return hosts(t, lister) == "customer.shop.svc" })
	added := service("route", "10.0.0.5")
	added.ResourceVersion = "2"
	api.events <- encode(t, map[string]any{"type": "ADDED", "object": added})
	eventually(t, "the watch", func() bool { return hosts(t, lister) == "customer.shop.svc route.shop.svc" })
}

func hosts(t *testing.T, l *services.Lister) string {
	list, err := l.List(t.Context())
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, s := range list {
		names = append(names, s.GetHostname())
	}
	return strings.Join(names, " ")
}

func service(name, ip string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}

// apiServer answers lists and watches of Services, in JSON.
type apiServer struct {
	mu     sync.Mutex
	refuse bool
	items  []*corev1.Service
	events chan []byte
}

func (a *apiServer) allow(items ...*corev1.Service) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse, a.items = false, items
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	refuse, items := a.refuse, a.items
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case refuse:
		w.WriteHeader(http.StatusForbidden)
		write(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"services is forbidden","code":403}`)
	case r.URL.Query().Get("sendInitialEvents") == "true":
		// A server without streaming lists; clients fall back to a list.
		w.WriteHeader(http.StatusUnprocessableEntity)
		write(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","message":"sendInitialEvents is forbidden","code":422}`)
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for {
			select {
			case e := <-a.events:
				write(w, string(e))
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	default:
		list := corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for _, s := range items {
			list.Items = append(list.Items, *s)
		}
		body, err := json.Marshal(list)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		write(w, string(body))
	}
}

func write(w io.Writer, body string) {
	// A client that is gone asks again.
	_, _ = io.WriteString(w, body)
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
