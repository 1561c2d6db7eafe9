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

// wanted is a Service of a baseline with the sandboxes that have a Service beside it.
type wanted struct {
	istio.Service
	// at is where in it a routing key is, and of are the baselines of its Sandboxes.
	at map[string]int
	of []table.Workload
}

// servicesOf returns the Services of baselines for which the table has rules. Rules that lead
// nowhere are no part of it: their requests stay with the baseline.
func servicesOf(t table.Table) map[types.NamespacedName]*wanted {
	out := map[types.NamespacedName]*wanted{}
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
					out[id] = &wanted{Service: istio.Service{Namespace: id.Namespace, Name: id.Name}, at: map[string]int{}}
				}
				to, _, _ := strings.Cut(d.Host, ".")
				out[id].lead(r.RoutingKey, r.Baseline, crdv1.IstioPortMapping{FromPort: int32(d.Port), ToService: to, WorkloadPort: int32(m.WorkloadPort)})
			}
		}
	}
	return out
}

// lead adds that requests with a key for a port of a Service reach another one. The first baseline
// counts, for all ports, where the Service leads to pods of two that have a sandbox each: so does
// package routing have it, which says so of the other one.
func (w *wanted) lead(key string, baseline table.Workload, m crdv1.IstioPortMapping) {
	i, has := w.at[key]
	if !has {
		i = len(w.Sandboxes)
		w.at[key] = i
		w.Sandboxes, w.of = append(w.Sandboxes, istio.Sandbox{Key: key}), append(w.of, baseline)
	}
	if w.of[i] != baseline {
		return
	}
	of := &w.Sandboxes[i]
	if !slices.ContainsFunc(of.Mappings, func(other crdv1.IstioPortMapping) bool { return other.FromPort == m.FromPort }) {
		of.Mappings = append(of.Mappings, m)
	}
}

// withPorts returns the Services, sorted, each with all ports that it has. Of one that is not
// there those are known that sandboxes stand for.
func withPorts(ctx context.Context, c client.Reader, services map[types.NamespacedName]*wanted) ([]istio.Service, error) {
	byName := func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	var out []istio.Service
	for _, id := range slices.SortedFunc(maps.Keys(services), byName) {
		s := services[id].Service
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
