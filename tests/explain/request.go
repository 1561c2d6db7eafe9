package explain

import (
	"fmt"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// question makes the request, in one of the many ways to ask the same, and records the subject
// that the answer must name. A part that the fault has set stays.
func (s *story) question() *routingv1.ExplainRequest {
	if s.ask == nil {
		s.ask = &routingv1.ExplainRequest{}
	}
	if s.ask.GetHeaders() == nil {
		s.addKey()
	}
	if s.ask.GetTarget() == nil {
		s.addTarget()
	}
	switch s.random.IntN(3) {
	case 0:
		s.ask.At = &routingv1.At{Version: &routingv1.At_Fresh{Fresh: true}}
	case 1:
		s.ask.At = &routingv1.At{Version: &routingv1.At_NotBefore{NotBefore: &routingv1.Position{Sequence: s.last.Seq}}}
	}
	if s.cold {
		s.ask.At = nil // nothing has been reached there
	}
	if s.held != nil && s.ask.GetPod() == "" && s.random.IntN(2) == 0 {
		s.ask.Pod = namespace + "/" + s.held.name
	}
	return s.ask
}

// addKey puts the key into the request, or into its headers.
func (s *story) addKey() {
	s.want.key = s.key
	header := func(from, name, value string) {
		s.want.keyFrom = from
		s.ask.Headers = []*routingv1.Header{{Name: "x-request-id", Value: "1"}, {Name: name, Value: value}}
	}
	switch s.random.IntN(5) {
	case 0:
		header("baggage", "Baggage", "user=alice, sd-routing-key="+s.key+";ttl=1, sd-routing=no")
	case 1:
		header("baggage", "baggage", "sd-routing-key=older,sd-routing-key="+s.key)
	case 2:
		header("tracestate", "tracestate", "sd-routing-key="+s.key+",vendor=1")
	case 3:
		header(customHeader, "X-Team-Key", s.key)
	default:
		s.ask.RoutingKey = s.key
	}
}

// addTarget adds the target of the request: the baseline, or one of the names and the address of
// its Service. The port is the one of the fault, or 80, or none.
func (s *story) addTarget() {
	s.want.baseline = s.baseline
	servicePort := uint32(80)
	if s.want.port == ports[9090] {
		servicePort = 9090
	} else if s.random.IntN(2) == 0 {
		servicePort = 0
	}
	s.want.port = ports[servicePort]
	if s.random.IntN(4) == 0 {
		w := workload(s.baseline)
		s.ask.Target = &routingv1.ExplainRequest_Baseline{Baseline: &routingv1.Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}}
		s.ask.WorkloadPort = s.want.port
		return
	}
	hosts := []string{
		s.baseline, s.baseline + "." + namespace, s.baseline + "." + namespace + ".svc",
		s.baseline + "." + namespace + ".svc.cluster.local.", addressOf(s.baseline),
	}
	host := hosts[s.random.IntN(len(hosts))]
	if servicePort != 0 {
		host = fmt.Sprintf("%s:%d", host, servicePort)
	}
	s.ask.Target = &routingv1.ExplainRequest_Destination{Destination: host}
}
