package adapter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/routeserver/table"
)

// servicesOf returns the Services of baselines of which a table leads requests to sandboxes.
func servicesOf(t table.Table) map[types.NamespacedName]*istio.Service {
	asked, out := meshes.AskedOf(t), map[types.NamespacedName]*istio.Service{}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		for _, of := range asked[key] {
			id := types.NamespacedName{Namespace: of.Namespace, Name: of.Service}
			if out[id] == nil {
				out[id] = &istio.Service{Namespace: id.Namespace, Name: id.Name}
			}
			out[id].Sandboxes = append(out[id].Sandboxes, istio.Sandbox{Key: key, Author: "sandbox " + of.Sandbox, Mappings: of.Mappings})
		}
	}
	return out
}

// withAuthors names the user who wrote each sandbox last, where that is recorded, and leaves it with
// the sandbox itself where not.
func withAuthors(ctx context.Context, c client.Reader, services map[types.NamespacedName]*istio.Service) error {
	if len(services) == 0 {
		return nil
	}
	var all crdv1.SignadotSandboxList
	if err := c.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	users := map[string]string{}
	for i := range all.Items {
		s := &all.Items[i]
		if author, known, err := crdv1.AuthorOf(s.Annotations); err == nil && known {
			users["sandbox "+s.Name] = "user " + author.User
		}
	}
	for _, of := range services {
		for i := range of.Sandboxes {
			of.Sandboxes[i].Author = cmp.Or(users[of.Sandboxes[i].Author], of.Sandboxes[i].Author)
		}
	}
	return nil
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
