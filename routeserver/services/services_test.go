package services_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	got := services.Describe([]*corev1.Service{fork, odd, service("headless", corev1.ClusterIPNone), service("external-name", ""), baseline}, nil)
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

// Hosts are listed as the cluster's DNS has them.
func TestDescribeHostsOfHeadlessServices(t *testing.T) {
	const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	db := headless("db")
	copied := headless("sb-db")
	copied.Annotations = map[string]string{"signadot.com/routing-key": "k1", "signadot.com/baseline-service": "shop/db"}
	six := headless("six", corev1.IPv6Protocol, corev1.IPv4Protocol)
	yes, no := true, false
	for name, c := range map[string]struct {
		services []*corev1.Service
		slices   []*discoveryv1.EndpointSlice
		want     []string
	}{
		"a host for each hostname, with the port on which the pod listens": {
			[]*corev1.Service{db}, []*discoveryv1.EndpointSlice{slice("db", "1", v4, 5432, at("db-1", "10.1.0.2", nil), at("db-0", "10.1.0.1", &yes))},
			[]string{"db-0.db.shop.svc 10.1.0.1 pg:5432/TCP", "db-1.db.shop.svc 10.1.0.2 pg:5432/TCP"},
		},
		"none without a hostname, or not ready": {
			[]*corev1.Service{db}, []*discoveryv1.EndpointSlice{slice("db", "1", v4, 5432, at("", "10.1.0.1", nil), at("db-1", "10.1.0.2", &no))}, nil,
		},
		"none behind a Service that has an address": {
			[]*corev1.Service{service("db", "10.0.0.9")}, []*discoveryv1.EndpointSlice{slice("db", "1", v4, 5432, at("db-0", "10.1.0.1", nil))},
			[]string{"db.shop.svc 10.0.0.9 http:80/TCP"},
		},
		"none behind a Service that is gone": {
			nil, []*discoveryv1.EndpointSlice{slice("db", "1", v4, 5432, at("db-0", "10.1.0.1", nil))}, nil,
		},
		"those of a sandbox's copy say so": {
			[]*corev1.Service{copied}, []*discoveryv1.EndpointSlice{slice("sb-db", "1", v4, 5432, at("db-0", "10.1.0.7", nil))},
			[]string{"db-0.sb-db.shop.svc 10.1.0.7 pg:5432/TCP for k1 of db.shop.svc"},
		},
		"several pods of one hostname": {
			[]*corev1.Service{db}, []*discoveryv1.EndpointSlice{slice("db", "1", v4, 5432, at("db", "10.1.0.2", nil), at("db", "10.1.0.1", nil))},
			[]string{"db.db.shop.svc 10.1.0.1 pg:5432/TCP", "db.db.shop.svc 10.1.0.2 pg:5432/TCP"},
		},
		"an endpoint that moves from one slice to another is one": {
			[]*corev1.Service{db},
			[]*discoveryv1.EndpointSlice{slice("db", "2", v4, 5433, at("db-0", "10.1.0.1", nil)), slice("db", "1", v4, 5432, at("db-0", "10.1.0.1", nil))},
			[]string{"db-0.db.shop.svc 10.1.0.1 pg:5432/TCP"},
		},
		"the family that the Service names first": {
			[]*corev1.Service{six},
			[]*discoveryv1.EndpointSlice{slice("six", "1", v4, 1, at("a", "10.1.0.1", nil), at("b", "10.1.0.2", nil)), slice("six", "2", v6, 1, at("a", "fd00::1", nil))},
			[]string{"a.six.shop.svc fd00::1 pg:1/TCP", "b.six.shop.svc 10.1.0.2 pg:1/TCP"},
		},
		"addresses that are names are none": {
			[]*corev1.Service{db}, []*discoveryv1.EndpointSlice{slice("db", "1", discoveryv1.AddressTypeFQDN, 1, at("a", "a.example", nil))}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range services.Describe(c.services, c.slices) {
				got = append(got, line(s))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// line says a ClusterService in one line.
func line(s *routesv1.ClusterService) string {
	out := s.GetHostname() + " " + s.GetServiceIp()
	for _, p := range s.GetPorts() {
		out += fmt.Sprintf(" %s:%d/%s%s", p.GetName(), p.GetPort(), p.GetProtocol(), p.GetAppProtocol())
	}
	if i := s.GetSandboxInfo(); i != nil {
		out += " for " + i.GetSandboxRoutingKey() + " of " + i.GetBaselineHostname()
	}
	return out
}

func headless(name string, families ...corev1.IPFamily) *corev1.Service {
	s := service(name, corev1.ClusterIPNone)
	s.Spec.IPFamilies = families
	return s
}

func slice(of, suffix string, family discoveryv1.AddressType, port int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	name, tcp := "pg", corev1.ProtocolTCP
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: of + "-" + suffix, Labels: map[string]string{discoveryv1.LabelServiceName: of}},
		AddressType: family,
		Endpoints:   endpoints,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
	}
}

func at(hostname, address string, ready *bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	if hostname != "" {
		e.Hostname = &hostname
	}
	return e
}

func service(name, ip string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}
