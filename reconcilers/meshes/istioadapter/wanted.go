package istioadapter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/routeserver/table"
)

// servicesOf returns the baseline Services with requests that a table routes to sandboxes.
func servicesOf(t table.Table) map[types.NamespacedName]*istio.Service {
	asked, out := meshes.AskedOf(t), map[types.NamespacedName]*istio.Service{}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		for _, of := range asked[key] {
			id := types.NamespacedName{Namespace: of.Namespace, Name: of.Service}
			if out[id] == nil {
				out[id] = &istio.Service{Namespace: id.Namespace, Name: id.Name}
			}
			out[id].Sandboxes = append(out[id].Sandboxes, istio.Sandbox{Key: key, Author: "routing key " + key, Mappings: of.Mappings})
		}
	}
	return out
}

// withAuthors sets the author of each routing key, so that its routes count in the share of that
// user: the author of the RoutingConfig or, where only the operator has written that, of the
// sandbox or route group that made it; where no author is recorded, that object. Members do not
// count: a route group may name every sandbox.
func withAuthors(ctx context.Context, c client.Reader, services map[types.NamespacedName]*istio.Service) error {
	if len(services) == 0 {
		return nil
	}
	var configs crdv1.RoutingConfigList
	var sandboxes crdv1.SignadotSandboxList
	var groups crdv1.SignadotRouteGroupList
	for _, list := range []client.ObjectList{&configs, &sandboxes, &groups} {
		if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list owners of routing keys: %w", err)
		}
	}
	makers := map[types.UID]string{}
	for _, s := range lists.Pointers(sandboxes.Items) {
		makers[s.UID] = authorOr(s, "sandbox "+s.Name)
	}
	for _, g := range lists.Pointers(groups.Items) {
		makers[g.UID] = authorOr(g, "route group "+g.Name)
	}
	holders := map[string]*crdv1.RoutingConfig{}
	for _, config := range lists.Pointers(configs.Items) {
		if have := holders[config.RoutingKey()]; have != nil {
			config = routing.Holder(have, config)
		}
		holders[config.RoutingKey()] = config
	}
	for _, of := range services {
		for _, sandbox := range lists.Pointers(of.Sandboxes) {
			config := holders[sandbox.Key]
			if config == nil { // Its RoutingConfig has just gone, or the cache has not heard of it.
				continue
			}
			owner := "RoutingConfig " + config.Name
			if maker := metav1.GetControllerOfNoCopy(config); maker != nil {
				owner = cmp.Or(makers[maker.UID], owner)
			}
			sandbox.Author = authorOr(config, owner)
		}
	}
	return nil
}

// authorOr returns the recorded author of an object, or another name.
func authorOr(o client.Object, other string) string {
	if author, known, err := crdv1.AuthorOf(o.GetAnnotations()); err == nil && known {
		return "user " + author.User
	}
	return other
}

// withPorts returns the Services, sorted, each with all its ports; those in the sandboxes' mappings if
// the Service does not exist or has none.
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
		s.Ports = append(s.Ports, lists.Map(have.Spec.Ports, func(p corev1.ServicePort) int32 { return p.Port })...)
		if len(s.Ports) == 0 {
			for _, of := range s.Sandboxes {
				for _, m := range of.Mappings {
					s.Ports = append(s.Ports, m.FromPort)
				}
			}
			s.Ports = lists.Unique(s.Ports)
		}
		out = append(out, s)
	}
	return out, nil
}

// Settings configure the routing by VirtualServices.
type Settings struct {
	// Enabled: there is an adapter.
	Enabled bool
	// Labels and Annotations are added to a VirtualService while it has the operator's routes, unless
	// it has one of the same name.
	Labels, Annotations map[string]string
}

// Validate returns which setting is wrong, and why; nil when none is.
func (s Settings) Validate() error {
	wrong := metav1validation.ValidateLabels(s.Labels, field.NewPath("additionalLabels"))
	wrong = append(wrong, apivalidation.ValidateAnnotations(s.Annotations, field.NewPath("additionalAnnotations"))...)
	for _, name := range slices.Sorted(maps.Keys(s.Annotations)) {
		if strings.HasPrefix(name, "istio.signadot.com/") {
			wrong = append(wrong, field.Invalid(field.NewPath("additionalAnnotations"), name, "the operator writes annotations of istio.signadot.com itself"))
		}
	}
	if err := wrong.ToAggregate(); err != nil {
		return fmt.Errorf("%w", err)
	}
	return nil
}
