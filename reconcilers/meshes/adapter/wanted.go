package adapter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/routeserver/table"
)

// servicesOf returns the Services of baselines for which the table has rules, with the
// sandboxes that have a Service beside each. Rules that lead nowhere are no part of it: their
// requests stay with the baseline.
func servicesOf(t table.Table) map[types.NamespacedName]*istio.Service {
	out := map[types.NamespacedName]*istio.Service{}
	for r := range t.All() {
		if r.Kept() {
			continue
		}
		for _, m := range r.Mappings {
			for _, d := range m.Destinations {
				if d.Service == "" {
					continue
				}
				id := types.NamespacedName{Namespace: r.Baseline.Namespace, Name: d.Service}
				if out[id] == nil {
					out[id] = &istio.Service{Namespace: id.Namespace, Name: id.Name}
				}
				to, _, _ := strings.Cut(d.Host, ".")
				lead(out[id], r.RoutingKey, crdv1.IstioPortMapping{FromPort: int32(d.Port), ToService: to, WorkloadPort: int32(m.WorkloadPort)})
			}
		}
	}
	return out
}

// lead adds that requests with a key for a port of a Service reach another one. The first one
// counts, where the Service leads to pods of two baselines that have a sandbox each.
func lead(s *istio.Service, key string, m crdv1.IstioPortMapping) {
	i := slices.IndexFunc(s.Sandboxes, func(of istio.Sandbox) bool { return of.Key == key })
	if i < 0 {
		i = len(s.Sandboxes)
		s.Sandboxes = append(s.Sandboxes, istio.Sandbox{Key: key})
	}
	of := &s.Sandboxes[i]
	if !slices.ContainsFunc(of.Mappings, func(other crdv1.IstioPortMapping) bool { return other.FromPort == m.FromPort }) {
		of.Mappings = append(of.Mappings, m)
	}
}

// withPorts returns the Services, sorted, each with all ports that it has. Of one that is not
// there those are known that sandboxes stand for.
func withPorts(ctx context.Context, c client.Reader, services map[types.NamespacedName]*istio.Service) ([]istio.Service, error) {
	byName := func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	var out []istio.Service
	for _, id := range slices.SortedFunc(maps.Keys(services), byName) {
		s := *services[id]
		var have corev1.Service
		if err := c.Get(ctx, id, &have); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read Service %s: %w", id, err)
		}
		for _, p := range have.Spec.Ports {
			s.Ports = append(s.Ports, p.Port)
		}
		if len(s.Ports) == 0 {
			for _, of := range s.Sandboxes {
				for _, m := range of.Mappings {
					s.Ports = append(s.Ports, m.FromPort)
				}
			}
			slices.Sort(s.Ports)
			s.Ports = slices.Compact(s.Ports)
		}
		out = append(out, s)
	}
	return out, nil
}
