package meshtrial

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/routeserver/table"
)

// Meshes are the meshes that are on, as the configuration of the operator has it.
type Meshes struct {
	Istio      istioadapter.Settings
	GatewayAPI gatewayadapter.Settings
	// Policies has the action if a policy does not apply to a derived route.
	Policies policies.Settings
	// KeyHeaders are the headers that carry a key as their whole value.
	KeyHeaders []string
}

// Config is the cluster in which meshes are simulated.
type Config struct {
	// Client reads and writes the objects that controllers work with, in memory.
	Client client.Client
	// Reader lists the objects of meshes and policies in the cluster, and Mapper has their versions.
	Reader client.Reader
	Mapper meta.RESTMapper
	// Namespaces are those that the operator may read; empty means all.
	Namespaces []string
	Meshes     Meshes
	// Note takes sentences about kinds that the user may not list.
	Note func(string)
}

// Routers simulates the adapters of the meshes that are on: routes for a table are derived from the
// objects of the cluster and written on top of them, in memory.
type Routers struct {
	world      *world
	headers    []string
	istio      *istioadapter.Adapter
	gatewayAPI *gatewayadapter.Adapter
	// istioSaid and gatewayAPISaid are the last reports, of all Targets of a table.
	istioSaid      map[meshes.Target]istioadapter.Report
	gatewayAPISaid map[meshes.Target]gatewayadapter.Report
}

// New returns the Routers of the meshes that are on.
func New(c Config) *Routers {
	w := &world{Client: c.Client, config: c, objects: map[identity]*object{}, listed: map[schema.GroupKind]bool{}}
	m := &Routers{world: w, headers: c.Meshes.KeyHeaders}
	mode := c.Meshes.Policies
	mode.Routes = cmp.Or(mode.Routes, policies.Refuse)
	if c.Meshes.Istio.Enabled {
		m.istio = istioadapter.Trial(istioadapter.Config{
			Settings: c.Meshes.Istio, Client: m.world, Kinds: m.world,
			Policies: policies.OfVirtualServices(), RefusePolicies: mode.Routes == policies.Refuse,
		})
	}
	if c.Meshes.GatewayAPI.Enabled {
		m.gatewayAPI = gatewayadapter.Trial(gatewayadapter.Config{
			Config:   meshes.Config{Client: m.world, Kinds: m.world},
			Settings: c.Meshes.GatewayAPI.WithPolicies(mode), VirtualServices: c.Meshes.Istio.Enabled, Namespaces: c.Namespaces,
		})
	}
	return m
}

// On reports whether any mesh is.
func (m *Routers) On() bool { return m.istio != nil || m.gatewayAPI != nil }

// Wire sets the reports of the meshes that are on in the config of the controllers.
func (m *Routers) Wire(c *kinds.Config) {
	if m.istio != nil {
		c.Istio = m.istio
	}
	if m.gatewayAPI != nil {
		c.GatewayAPI = m.gatewayAPI
	}
}

// unreadable returns the message of an adapter that cannot read the objects of its mesh; empty if it
// can.
func unreadable[M any](said map[meshes.Target]meshes.Report[M]) string {
	for _, r := range said {
		if t := r.Trouble; t != nil && (t.Reason == istioadapter.ReasonUnreadable || t.Reason == gatewayadapter.ReasonUnreadable) {
			return t.Message
		}
	}
	return ""
}

// NotKnown reports whether a message is about objects of a mesh that the user may not read.
func (m *Routers) NotKnown(message string) bool {
	return slices.ContainsFunc([]string{unreadable(m.istioSaid), unreadable(m.gatewayAPISaid)}, func(why string) bool {
		return why != "" && strings.Contains(message, why)
	})
}

// Route syncs the objects of the meshes with facts, and returns the Targets with another report than at
// the last call, by the kind of MeshRoute.
func (m *Routers) Route(ctx context.Context, facts []event.Recorded) (map[string][]meshes.Target, error) {
	t, keys := m.table(facts)
	var asked []meshes.Target
	for _, all := range meshes.AskedOf(t) {
		for _, a := range all {
			asked = append(asked, a.Target)
		}
	}
	changed := map[string][]meshes.Target{}
	if m.istio != nil {
		if err := m.routeByIstio(ctx, t, keys); err != nil {
			return nil, err
		}
		changed[crdv1.KindIstioRoute], m.istioSaid = since(m.istioSaid, asked, m.istio.Report)
	}
	if m.gatewayAPI != nil {
		if err := m.routeByGatewayAPI(ctx, t, keys); err != nil {
			return nil, err
		}
		changed[crdv1.KindGatewayAPIRoute], m.gatewayAPISaid = since(m.gatewayAPISaid, asked, m.gatewayAPI.Report)
	}
	return changed, nil
}

// since returns of which Targets another report is given than before, and all reports.
func since[M any](before map[meshes.Target]meshes.Report[M], asked []meshes.Target, report func(meshes.Target) meshes.Report[M]) ([]meshes.Target, map[meshes.Target]meshes.Report[M]) {
	now := map[meshes.Target]meshes.Report[M]{}
	for _, t := range asked {
		now[t] = report(t)
	}
	return meshes.Changed(before, now), now
}

// table returns the table of facts, and its routing keys.
func (m *Routers) table(facts []event.Recorded) (t table.Table, keys []string) {
	for _, f := range facts {
		switch d := f.Fact.Data.(type) {
		case *factv1.RoutingDeclared:
			keys = append(keys, d.GetRoutingKey())
		case *factv1.RoutingWithdrawn:
			keys = append(keys, d.GetRoutingKey())
		}
	}
	if len(facts) > 0 && len(m.headers) > 0 {
		at := facts[0].Pos
		facts = append(slices.Clone(facts), event.Recorded{Pos: at, Fact: event.Fact{Key: event.KeyHeaders, Data: &factv1.KeyHeadersDeclared{Names: m.headers}}})
	}
	return t.Apply(facts...), keys
}

func (m *Routers) routeByIstio(ctx context.Context, t table.Table, keys []string) error {
	try := func() { m.istio.Try(ctx, t) }
	try()
	if err := write(m.world, m.istio.Behind(keys), nil, try); err != nil {
		return err
	}
	put, remove, err := m.istio.RulesBehind(ctx, keys)
	if err != nil {
		return err
	}
	return cmp.Or(write(m.world, put, remove, try), ctx.Err())
}

func (m *Routers) routeByGatewayAPI(ctx context.Context, t table.Table, keys []string) error {
	try := func() { m.gatewayAPI.Try(ctx, t) }
	try()
	put, remove := m.gatewayAPI.Behind(keys)
	return cmp.Or(write(m.world, put, remove, try), ctx.Err())
}

// write writes and deletes objects, and calls again afterwards if there are any.
func write[T client.Object](w *world, put, remove []T, again func()) error {
	for _, o := range put {
		if err := w.put(o); err != nil {
			return err
		}
	}
	for _, o := range remove {
		w.remove(o)
	}
	if len(put)+len(remove) > 0 {
		again()
	}
	return nil
}
