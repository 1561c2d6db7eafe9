package previews

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/identity"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/reach"
	"switchyard.dev/controlplane-link/reach/allow"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/reconcilers/baseline/ready"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/policy"
)

// Services are those of a cluster without an API server: their addresses, which count as those of pods, by their names
// such as web.shop.svc.
type Services map[string]netip.Addr

// Rules implements outbound.Knows.
func (Services) Rules() policy.Config { return policy.Config{Reach: policy.ReachCluster} }

// Namespace implements outbound.Knows.
func (Services) Namespace(_ netip.Addr, host string) string {
	named, _ := policy.Parse(host, domain)
	return named.Namespace
}

// Service implements outbound.Knows.
func (s Services) Service(host string) bool { return s[host].IsValid() }

// Kind implements outbound.Knows.
func (Services) Kind(netip.Addr) policy.Kind { return policy.KindPod }

// Begun implements outbound.Counts.
func (Services) Begun(audit.Direction) (ended func()) { return func() {} }

// LookupNetIP implements outbound.Resolver.
func (s Services) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if !s.Service(host) {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{s[host]}, nil
}

// domain is that of the cluster.
const domain = "cluster.local"

// AgentConfig configures the agent of a cluster. All fields are required.
type AgentConfig struct {
	// Address is that of the control plane, and Bundle has its authorities in PEM.
	Address string
	Bundle  []byte
	Token   string
	// Dir is a folder for its journal.
	Dir      string
	Services Services
}

// NewAgent returns the agent. The caller calls Run.
func NewAgent(c AgentConfig) (*link.Agent, error) {
	roots := trust.NewRoots("the bundle")
	if err := roots.Set(c.Bundle); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(c.Dir, "journal-")
	if err != nil {
		return nil, err
	}
	log, err := audit.Open(audit.Config{Dir: folder, Out: io.Discard})
	if err != nil {
		return nil, err
	}
	service, err := reach.New(reach.Config{
		Allow: allow.Config{Namespace: "signadot", Domain: domain}, Cluster: c.Services, Pods: &ready.Finder{}, Resolver: c.Services, Counts: c.Services, Audit: log,
	})
	if err != nil {
		return nil, err
	}
	return link.New(link.Config{
		Address: c.Address, Verify: roots.Verify, Token: func() (string, error) { return c.Token, nil },
		Hello: func(context.Context) (*linkv1.Hello, error) {
			return &linkv1.Hello{Version: admission.Version, ClusterUid: c.Token, Instance: "one", OperatorVersion: "none"}, nil
		},
		Handle: func(ctx context.Context, in *carrier.Incoming, welcome *linkv1.Welcome) {
			open, _ := in.Request.(*linkv1.Open)
			user, _ := identity.Of(welcome.GetOrganisation(), open.GetCaller())
			service.Serve(ctx, in, open, user)
		},
	})
}
