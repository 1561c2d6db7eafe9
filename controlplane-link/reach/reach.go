// Package reach connects the control plane to Services of the cluster: it decides what may be
// reached by its name (controlplane-link/reach/allow), resolves that, judges the address
// (tunnels/policy), dials the same address, and records the connection (tunnels/outbound).
package reach

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"switchyard.dev/controlplane-link/reach/allow"
	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/reconcilers/baseline/ready"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/policy"
)

// Config configures a Reach.
type Config struct {
	// Allow is the policy for names.
	Allow allow.Config
	// Cluster is the state of the cluster, with policy.ReachCluster and Refused as ClusterConfig
	// returns them. Required.
	Cluster outbound.Knows
	// Pods finds pods of workloads. Required.
	Pods *ready.Finder
	// Audit and Counts are as in outbound.Config. Required.
	Audit  *audit.Log
	Counts outbound.Counts
	// Resolver looks up names of Services. Default: the system's.
	Resolver outbound.Resolver
	// Logger logs refusals. Default: none.
	Logger *slog.Logger
}

// own are the Services of the operator. Callers reach neither these nor others in its namespace,
// except that the gate of an exception reaches the Service of that.
var own = []string{
	"agent-metrics", "eventbus", "eventbus-metrics", "io-context-server", "io-context-server-metrics", "routeserver", "routeserver-metrics", "routeserver-peers",
	"signadot-controller-manager", "signadot-controller-manager-metrics", "signadot-webhook-service", "traffic-manager", "tunnel-api", "tunnel-api-metrics", "tunnel-proxy", "tunnel-proxy-metrics",
}

// place describes a Service of the operator in messages.
func place(service string) string { return "Service " + service + " of the operator" }

// every describes all Services in the operator's namespace.
const every = "a Service in the operator's namespace"

// Refused returns the Services that no caller can reach without an exception, for the Config of
// the cluster: those in the operator's namespace, and API servers.
func Refused(namespace string) []cluster.Refused {
	out := []cluster.Refused{{Namespace: "default", Name: "kubernetes", What: "an API server"}}
	for _, name := range own {
		out = append(out, cluster.Refused{Namespace: namespace, Name: name, What: place(name)})
	}
	return append(out, cluster.Refused{Namespace: namespace, What: every})
}

// Reach opens connections into the cluster. It is safe for concurrent use.
type Reach struct {
	cfg Config
	// gates are those of exceptions by their Service, and that of all other Services by "".
	gates map[string]*outbound.Gate
}

// New returns a Reach.
func New(cfg Config) (*Reach, error) {
	if cfg.Cluster == nil || cfg.Pods == nil {
		return nil, errors.New("reach: Cluster and Pods are required")
	}
	cfg.Resolver = cmp.Or[outbound.Resolver](cfg.Resolver, net.DefaultResolver)
	r := &Reach{cfg: cfg, gates: map[string]*outbound.Gate{}}
	for _, e := range append([]allow.Exception{{}}, allow.Exceptions...) {
		known := &knows{Knows: cfg.Cluster, reach: r, service: e.Service}
		gate, err := outbound.New(outbound.Config{Cluster: known, Resolver: known, Audit: cfg.Audit, Counts: cfg.Counts, Logger: cfg.Logger})
		if err != nil {
			return nil, err
		}
		r.gates[e.Service] = gate
	}
	return r, nil
}

// Serve answers one connection that the control plane requests for a user (controlplane-link/identity), and ends
// with it.
func (r *Reach) Serve(ctx context.Context, in *carrier.Incoming, open *linkv1.Open, user identity.User) {
	to := open.GetService()
	exception, refused := r.cfg.Allow.Judge(open.GetCaller(), to.GetHost(), to.GetPort())
	who := outbound.Who{Via: "link", User: user.Name, From: "link"}
	if refused != nil {
		r.gates[""].RecordRefused(who, to.GetHost(), to.GetPort(), refused)
		in.Refuse(refused)
		return
	}
	r.gates[exception.Service].Forward(ctx, who, in, to.GetHost(), to.GetPort())
}

// knows is the state of the cluster for one gate, and resolves names of workloads.
type knows struct {
	outbound.Knows
	reach   *Reach
	service string
}

// Rules implements outbound.Knows. The gate of an exception reaches the Service of that alone.
func (k *knows) Rules() policy.Config {
	rules := k.Knows.Rules()
	if k.service != "" {
		rules.Places = slices.DeleteFunc(slices.Clone(rules.Places), func(p policy.Place) bool { return p.What == place(k.service) || p.What == every })
		rules.Namespaces = []string{k.reach.cfg.Allow.Namespace}
	}
	return rules
}

// workload returns the workload that a host names.
func (k *knows) workload(host string) (crdv1.ObjectRef, bool) {
	o, is := policy.Parse(host, k.reach.cfg.Allow.Domain)
	return o, is && o.Kind != "" && o.Kind != policy.KindService
}

// Service implements outbound.Knows.
func (k *knows) Service(host string) bool {
	_, is := k.workload(host)
	return is || k.Knows.Service(host)
}

// Namespace implements outbound.Knows. A pod of a workload is one of the workload's namespace.
func (k *knows) Namespace(address netip.Addr, host string) string {
	switch w, is := k.workload(host); {
	case !is:
		return k.Knows.Namespace(address, host)
	case k.reach.cfg.Pods.Found(w, address):
		return w.Namespace
	}
	return ""
}

// LookupNetIP implements outbound.Resolver.
func (k *knows) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if w, is := k.workload(host); is {
		return k.reach.cfg.Pods.Find(w)
	}
	if !k.Knows.Service(host) {
		return nil, &net.DNSError{Err: "no such Service", Name: host, IsNotFound: true}
	}
	return k.reach.cfg.Resolver.LookupNetIP(ctx, network, host)
}
