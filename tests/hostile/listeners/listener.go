package listeners

import (
	"slices"

	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tunnels/carrier"
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
	agent       = Program{"agent", "signadot", "app=signadot-agent", "agent"}
	// linkServer runs on a machine beside the cluster.
	linkServer = Program{Name: "linkserver"}
	sidecar    = Program{"sidecar", "hotrod", "app=customer", "sd-sidecar"}
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
	attacks []attack
}

// All returns every listener of our programs, of the pods that they make, and of the link server.
func All() []*Listener {
	web := []attack{silent, halfTLS, slowHead, junk}
	return []*Listener{
		{manager, 9443, "webhooks", injected, []attack{silent, halfTLS, slowTLS, junk}},
		{manager, 8080, "metrics", fetch("/metrics"), with(web, unread("/metrics"))},
		{manager, 8081, "health", fetch("/healthz"), with(web, unread("/healthz"))},
		{routeServer, 7777, "grpc", lookUp, with(grpcAttacks, waits)},
		{routeServer, 7778, "rest", fetch(rules), with(web, unread(rules), follows)},
		{routeServer, 7779, "xds", subscribe, tlsGRPCAttacks},
		{routeServer, 9090, "metrics", fetch("/metrics"), with(web, unread("/metrics"))},
		{eventBus, 4222, "nats", connectToBus, []attack{silent, halfTLS, junk, strangeClients}},
		{eventBus, 8081, "health", fetch("/healthz"), with(web, unread("/healthz"))},
		{eventBus, 9090, "metrics", fetch("/metrics"), with(web, unread("/metrics"))},
		{ioContext, 8443, "api", askForNothing, []attack{silent, halfTLS, slowTLS, junk, forged}},
		{ioContext, 9090, "metrics", fetch("/metrics"), with(web, unread("/metrics"))},
		{tunnelAPI, 9070, "api", askOperator, tlsGRPCAttacks},
		{tunnelAPI, 9090, "metrics", fetch("/metrics"), with(web, unread("/metrics"))},
		{tunnelProxy, 1080, "socks5", greets("\x05\x01\x02", "\x05\x02"), []attack{silent, junk}},
		{tunnelProxy, 2222, "ssh", greets("SSH-2.0-honest\r\n", "SSH-2.0-"), []attack{silent, junk}},
		{tunnelProxy, 7777, "tunnels", shakeHands(carrier.Protocol), []attack{silent, halfTLS, slowAs(carrier.Protocol), junk}},
		{tunnelProxy, 7780, "control", shakeHands("h2"), []attack{silent, halfTLS, slowAs("h2"), junk}},
		{tunnelProxy, 9090, "metrics", fetch("/metrics"), with(web, unread("/metrics"))},
		{agent, 8088, "health", fetch("/healthz"), with(web, unread("/healthz"))},
		{agent, 9090, "metrics", fetch("/metrics"), with(web, unread("/metrics"))},
		{linkServer, plane.Agents, "agents", connectAgents, []attack{silent, halfTLS, slowAs(link.Protocol), junk}},
		{linkServer, plane.Users, "users", askThroughLink, []attack{silent, halfTLS, slowTLS, junk, forgedKeys}},
		{linkServer, plane.Replicas, "replicas", forward, []attack{silent, halfTLS, slowAs(replicaProtocol), junk}},
		{linkServer, plane.Metrics, "metrics", fetch("/metrics"), with(web, unread("/metrics"))},
		{sidecar, 15006, "inbound", askApplication, with(web, unread("/customer?customer=123"))},
		{sidecar, 15021, "readiness", fetch("/ready"), with(web, unread("/ready"))},
	}
}

// rules is the most expensive answer of the published API.
const rules = "/api/v1/workloads/routing-rules"

func with(some []attack, more ...attack) []attack { return slices.Concat(some, more) }
