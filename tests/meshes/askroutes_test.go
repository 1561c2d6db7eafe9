package meshes

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/precedence"
)

// Each set at a Gateway has a port of its own, the first of which is firstPort. A Gateway has
// at most perGateway of them.
const (
	firstPort  = 20000
	perGateway = 64
)

// gatewayLabels are those of the proxy that is all Gateways.
var gatewayLabels = map[string]string{"istio": "edge"}

// gatewayIP is its address.
var gatewayIP = net.IPv4(10, 77, 3, 1)

// gatewayPort returns the parent reference of a port of all Gateways' together.
func gatewayPort(number int) gatewayv1.ParentReference {
	return gatewayv1.ParentReference{
		Namespace: new(gatewayv1.Namespace(routeNamespaces[0])), Name: gatewayv1.ObjectName(gatewayName(number / perGateway)),
		SectionName: new(listenerName(number)),
	}
}

func listenerName(number int) gatewayv1.SectionName {
	return gatewayv1.SectionName(fmt.Sprintf("http-%d", number))
}

func gatewayName(n int) string { return fmt.Sprintf("gw%d", n) }

// gateways returns Gateways of a class with this many ports.
func gateways(class gatewayv1.ObjectName, ports int) []*gatewayv1.Gateway {
	var out []*gatewayv1.Gateway
	for first := 0; first < ports; first += perGateway {
		g := &gatewayv1.Gateway{Spec: gatewayv1.GatewaySpec{GatewayClassName: class}}
		g.Namespace, g.Name = routeNamespaces[0], gatewayName(first/perGateway)
		for i := first; i < min(first+perGateway, ports); i++ {
			g.Spec.Listeners = append(g.Spec.Listeners, gatewayv1.Listener{
				Name: listenerName(i), Port: gatewayv1.PortNumber(firstPort + i), Protocol: gatewayv1.HTTPProtocolType,
				AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromAll)}},
			})
		}
		out = append(out, g)
	}
	return out
}

// addressed returns what istiod wants beside a Gateway: its Service, and the Service's address.
func addressed(g *gatewayv1.Gateway) []client.Object {
	address := gatewayv1.GatewaySpecAddress{Type: new(gatewayv1.HostnameAddressType), Value: g.Name + "." + g.Namespace + ".svc.cluster.local"}
	g.Spec.Addresses = []gatewayv1.GatewaySpecAddress{address}
	meta := metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: gatewayLabels}}
	slice := endpoints(g.Namespace, g.Name, gatewayIP)
	slice.Ports = nil
	for _, l := range g.Spec.Listeners {
		name, port := string(l.Name), int32(l.Port)
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: name, Port: port, TargetPort: intstr.FromInt32(port)})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: &port})
	}
	return []client.Object{service, slice}
}

// servicePort returns the parent reference of a Service, with its port or without.
func servicePort(name string, port bool) gatewayv1.ParentReference {
	p := gatewayv1.ParentReference{Group: new(gatewayv1.Group("")), Kind: new(gatewayv1.Kind("Service")), Name: gatewayv1.ObjectName(name)}
	if port {
		p.Port = new(gatewayv1.PortNumber(Port))
	}
	return p
}

// asker asks parents of sets.
type asker struct{ gateway, sidecar *http.Client }

// ask sends a request to the parent of a set and returns which rule answered it, "" when none
// did.
func (a asker) ask(ctx context.Context, s *routeSet, q precedence.Request) (string, error) {
	query := url.Values{}
	for name, value := range q.Query {
		query.Set(name, value)
	}
	at := url.URL{Scheme: "http", Host: net.JoinHostPort(cmp.Or(s.host, gatewayIP.String()), strconv.Itoa(s.port)), Path: q.Path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, q.Method, at.String(), http.NoBody)
	if err != nil {
		return "", err
	}
	for name, value := range q.Headers {
		request.Header.Set(name, value)
	}
	from := a.sidecar
	if !s.ofService() {
		from, request.Host = a.gateway, cmp.Or(q.Host, "nobody.invalid")
	}
	answer, err := from.Do(request)
	if err != nil {
		return "", err
	}
	if err := answer.Body.Close(); err != nil {
		return "", err
	}
	by := answer.Header.Get(ServedBy)
	if (by == "") != (answer.StatusCode == http.StatusNotFound) {
		return "", fmt.Errorf("%s was answered with %d by %q", q, answer.StatusCode, by)
	}
	return by, nil
}
