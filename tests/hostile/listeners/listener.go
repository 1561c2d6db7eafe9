package listeners

import (
	"slices"

	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tests/hostile/beside"
	"switchyard.dev/tests/hostile/jobrunner"
	"switchyard.dev/tests/hostile/questions"
	"switchyard.dev/tests/hostile/recorder"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/workflows/jobexec/layout"
)

// Program is a program of the operator, as it is found in the cluster.
type Program struct {
	// Name is a word for it.
	Name string
	// Namespace and Selector find its pods, Container the container in them.
	Namespace, Selector, Container string
}

// The programs that listen.
var (
	manager     = Program{"controller-manager", "signadot", "control-plane=controller-manager", "manager"}
	routeServer = Program{"routeserver", "signadot", "app=routeserver", "routeserver"}
	eventBus    = Program{"eventbus", "signadot", "app=eventbus", "eventbus"}
	ioContext   = Program{"io-context-server", "signadot", "app=io-context-server", "io-context-server"}
	tunnelAPI   = Program{"tunnel-api", "signadot", "app=tunnel-api", "tunnel-api"}
	tunnelProxy = Program{"tunnel-proxy", "signadot", "app=tunnel-proxy", "tunnel-proxy"}
	trafficMgr  = Program{"traffic-manager", "signadot", "app=traffic-manager", "traffic-manager"}
	agent       = Program{"agent", "signadot", "app=signadot-agent", "agent"}
	// controlPlane runs on a machine beside the cluster.
	controlPlane = Program{Name: "controlplane"}
	// runner is the pod of a runner group that a World creates.
	runner = Program{"runner", jobrunner.Namespace, jobrunner.Selector, layout.ProxyContainer}
	// recording is the container that records in the pod of a fork that a World creates.
	recording = Program{"recorder", recorder.Namespace, recorder.Selector, traffic.ContainerName}
	sidecar   = Program{"sidecar", "hotrod", "app=customer", "sd-sidecar"}
)

// Listener is a port that pods can reach.
type Listener struct {
	Program Program
	// Port is its number in the pod.
	Port int
	// Name names the service.
	Name string

	// honest makes the calls of honest callers, which have to be served.
	honest func(*World, *Listener) (call, error)
	// attacks are what attackers do to it, all at the same time.
	attacks []attacks.Attack
}

// All returns every listener of our programs, of the pods that they make, and of the control plane.
func All() []*Listener {
	web := []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowHead, attacks.Junk}
	return []*Listener{
		{manager, 9443, "webhooks", injected, []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowTLS, attacks.Junk}},
		{manager, 9444, "runners", asks(questions.Nobody), attacks.TLSGRPC},
		{manager, 8080, "metrics", fetch("/metrics"), with(web, attacks.Unread("/metrics"))},
		{manager, 8081, "health", fetch("/healthz"), with(web, attacks.Unread("/healthz"))},
		{routeServer, 7777, "grpc", lookUp, with(attacks.GRPC, attacks.Waits)},
		{routeServer, 7778, "rest", fetch(rules), with(web, attacks.Unread(rules), attacks.Follows)},
		{routeServer, 7779, "xds", subscribe, attacks.TLSGRPC},
		{routeServer, 9090, "metrics", fetch("/metrics"), with(web, attacks.Unread("/metrics"))},
		{eventBus, 4222, "nats", connectToBus, []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.Junk, attacks.StrangeClients}},
		{eventBus, 8081, "health", fetch("/healthz"), with(web, attacks.Unread("/healthz"))},
		{eventBus, 9090, "metrics", fetch("/metrics"), with(web, attacks.Unread("/metrics"))},
		{ioContext, 8443, "api", askForNothing, []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowTLS, attacks.Junk, attacks.Forged}},
		{ioContext, 9090, "metrics", fetch("/metrics"), with(web, attacks.Unread("/metrics"))},
		{tunnelAPI, 9070, "api", asks(questions.Operator), attacks.TLSGRPC},
		{tunnelAPI, 9090, "metrics", fetch("/metrics"), with(web, attacks.Unread("/metrics"))},
		{tunnelProxy, 1080, "socks5", greets("\x05\x01\x02", "\x05\x02"), []attacks.Attack{attacks.Silent, attacks.Junk}},
		{tunnelProxy, 2222, "ssh", greets("SSH-2.0-honest\r\n", "SSH-2.0-"), []attacks.Attack{attacks.Silent, attacks.Junk}},
		{tunnelProxy, 7777, "tunnels", shakeHands(carrier.Protocol), []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowAs(carrier.Protocol), attacks.Junk}},
		{tunnelProxy, 7780, "control", shakeHands("h2"), []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowAs("h2"), attacks.Junk}},
		{tunnelProxy, 9090, "metrics", fetch("/metrics"), with(web, attacks.Unread("/metrics"))},
		{trafficMgr, 7444, "captures", asks(questions.Anyone), attacks.TLSGRPC},
		{trafficMgr, 16001, "health", fetch("/metrics"), with(web, attacks.Unread("/metrics"))},
		{agent, 8088, "health", fetch("/healthz"), with(web, attacks.Unread("/healthz"))},
		{agent, 9090, "metrics", fetch("/metrics"), with(web, attacks.Unread("/metrics"))},
		{controlPlane, plane.Agents, "agents", connectAgents, []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowAs(link.Protocol), attacks.Junk}},
		{controlPlane, beside.Proxy, "proxy", askThroughLink, []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowTLS, attacks.Junk, attacks.ForgedKeys}},
		{controlPlane, plane.Replicas, "replicas", askAsReplica, []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowAs(beside.ReplicaProtocol), attacks.Junk}},
		{controlPlane, beside.API, "api", askAPI, []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowTLS, attacks.Junk, attacks.ForgedAPIKeys, attacks.ForgedKeys}},
		{controlPlane, beside.Previews, "previews", func(w *World, _ *Listener) (call, error) { return w.link.Visit() }, []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowTLS, attacks.Junk, attacks.AfterTLS(attacks.StreamsAlone, "h2"), attacks.ForgedPreviewKeys, attacks.Preflights}},
		{controlPlane, plane.Metrics, "metrics", fetch("/metrics"), with(web, attacks.Unread("/metrics"))},
		{runner, layout.Port, "jobs", callRunner, attacks.TLSGRPC},
		{runner, layout.HealthPort, "health", fetch("/readyz"), with(web, attacks.Unread("/metrics"))},
		{recording, recorder.Port, "recorded", fetch(customerPath), with(web, attacks.Unread(customerPath), attacks.Greetings, attacks.StreamsAlone)},
		{sidecar, 15006, "inbound", askApplication, with(web, attacks.Unread(customerPath))},
		{sidecar, 15021, "readiness", fetch("/ready"), with(web, attacks.Unread("/ready"))},
	}
}

// customerPath is a request to the application.
const customerPath = "/customer?customer=123"

// rules is the most expensive answer of the published API.
const rules = "/api/v1/workloads/routing-rules"

func with(some []attacks.Attack, more ...attacks.Attack) []attacks.Attack {
	return slices.Concat(some, more)
}
