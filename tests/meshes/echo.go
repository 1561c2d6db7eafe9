package meshes

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tests/background"
	"switchyard.dev/tests/podnet"
)

// ServedBy is the header of each answer that names the Service which gave it.
const ServedBy = "Served-By"

// Port is that of each echo's Service; its server listens on TargetPort.
const (
	Port       = 8081
	TargetPort = 18081
)

// Echo creates a Service and a server at ip that replaces its pod, until the test ends. The server
// responds to every request with 200, the Service's name in ServedBy, and the request's path and
// host in separate headers.
func (m *Mesh) Echo(namespace, name string, ip net.IP) {
	m.Helper()
	m.Must(podnet.ServeAddress(ip))
	listener, err := (&net.ListenConfig{}).Listen(m.Context(), "tcp", net.JoinHostPort(ip.String(), strconv.Itoa(TargetPort)))
	m.Must(err)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(ServedBy, name)
		w.Header().Set("Seen-Path", r.URL.Path)
		w.Header().Set("Seen-Host", r.Host)
	})}
	background.Run(m, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	m.Create(echoService(namespace, name), endpoints(namespace, name, ip))
}

func echoService(namespace, name string) *corev1.Service {
	http := "http"
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: http, Port: Port, AppProtocol: &http}}},
	}
}

// endpoints returns the address of a Service that selects no pods, for its port and for one
// named grpc if it has that.
func endpoints(namespace, name string, ip net.IP) *discoveryv1.EndpointSlice {
	ready, port := true, int32(TargetPort)
	named := func(name string) discoveryv1.EndpointPort { return discoveryv1.EndpointPort{Name: &name, Port: &port} }
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{named("http"), named("grpc")},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}
