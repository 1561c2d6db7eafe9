package routes

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pb "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/services"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tests/world"
)

// GetClusterServices from a real API server to a client: a Service, the copy that
// a sandbox made of it, and the hosts behind a headless one and behind its copy.
// It does not wait for a routing table.
func TestServicesOfTheClusterAndTheHostsBehindHeadlessOnes(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	h2c := "kubernetes.io/h2c"
	made := map[string]string{"signadot.com/routing-key": "k1", "signadot.com/baseline-service": "shop/customer"}
	madeHeadless := map[string]string{"signadot.com/routing-key": "k1", "signadot.com/baseline-service": "shop/db"}
	w.Namespaces("shop")
	w.Create(clusterService("customer", "10.0.0.11", nil, &h2c), clusterService("sb-customer", "10.0.0.12", made, nil),
		clusterService("db", corev1.ClusterIPNone, nil, nil), clusterService("sb-db", corev1.ClusterIPNone, madeHeadless, nil),
		oneHost("db", "db-0", "10.1.0.1"), oneHost("sb-db", "db-0", "10.1.0.2"))
	lister, err := services.New(w.Kube, slog.New(slog.DiscardHandler))
	w.Must(err)
	m, _ := served.Run(t, server.Config{Log: begin(t).Log, Services: lister, Parts: []server.Part{
		func(ctx context.Context, _ *view.View) error { lister.Run(ctx); return nil },
	}})
	want := []string{
		"customer.shop.svc 10.0.0.11 http:80/TCP kubernetes.io/h2c",
		"db-0.db.shop.svc 10.1.0.1 http:8080/TCP",
		"db-0.sb-db.shop.svc 10.1.0.2 http:8080/TCP for k1 of db.shop.svc",
		"kubernetes.default.svc 10.0.0.1 https:443/TCP",
		"sb-customer.shop.svc 10.0.0.12 http:80/TCP for k1 of customer.shop.svc",
	}
	conn := dial(t, m.GRPCAddress())
	var got []string
	eventually(t, "the services are known", func() bool {
		var err error
		got, err = clusterServices(t, conn)
		return err == nil
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Without a cluster there is nothing to list; an empty list would be a lie.
func TestServicesWithoutAClusterAreUnimplemented(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, begin(t).Log, anyPort)
	if _, err := clusterServices(t, dial(t, m.GRPCAddress())); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

func clusterService(name, address string, annotations map[string]string, appProtocol *string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: annotations},
		Spec:       corev1.ServiceSpec{ClusterIP: address, Ports: []corev1.ServicePort{{Name: "http", Port: 80, AppProtocol: appProtocol}}},
	}
}

func oneHost(of, hostname, address string) *discoveryv1.EndpointSlice {
	name, port, tcp := "http", int32(8080), corev1.ProtocolTCP
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: of, Labels: map[string]string{discoveryv1.LabelServiceName: of}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Hostname: &hostname}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
	}
}

// clusterServices returns each service in a line.
func clusterServices(t *testing.T, conn grpc.ClientConnInterface) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := pb.NewRoutesClient(conn).GetClusterServices(ctx, &pb.GetClusterServicesRequest{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range answer.GetServices() {
		line := s.GetHostname() + " " + s.GetServiceIp()
		for _, p := range s.GetPorts() {
			line += fmt.Sprintf(" %s:%d/%s", p.GetName(), p.GetPort(), p.GetProtocol())
			if p.GetAppProtocol() != "" {
				line += " " + p.GetAppProtocol()
			}
		}
		if i := s.GetSandboxInfo(); i != nil {
			line += " for " + i.GetSandboxRoutingKey() + " of " + i.GetBaselineHostname()
		}
		out = append(out, line)
	}
	return out, nil
}
