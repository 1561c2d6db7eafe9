package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/reconcilers/dryrun/manifest"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/workflows/execunit"
)

// Question is the subject of a dry run: the objects in Text, in YAML or JSON, or the object of this
// kind and name, which can only be deleted.
type Question struct {
	Text                  []byte
	Kind, Namespace, Name string
	Delete                bool
	// Operator is the operator's namespace. The configuration there applies.
	Operator string
}

// Ask returns the Plan for a question about the cluster of a client, with the rights of its user and
// the operator's configuration. The errors ErrInvalid, ErrNotSupported and ErrNoObject are problems of
// the question.
func Ask(ctx context.Context, c client.Client, ask Question) (Plan, error) {
	objects, passed, err := objectsOf(ask)
	if err != nil {
		return Plan{}, malformed{err}
	}
	if len(objects) == 0 {
		return Plan{Unknown: passed}, nil // No object of the operator would change.
	}
	config := Config{Reader: c, Client: c, OperatorNamespace: ask.Operator}
	config.Steps = func(ctx context.Context) (execunit.Settings, error) { return stepSettings(ctx, c, ask.Operator) }
	assumed, err := configured(ctx, c, &config)
	if err != nil {
		return Plan{}, err
	}
	do := Apply
	if ask.Delete {
		do = Delete
	}
	p, err := do(ctx, config, objects...)
	p.Unknown = slices.Concat(passed, assumed, p.Unknown)
	return p, err
}

// malformed is an error about the form of a question.
type malformed struct{ error }

// Is implements the interface of errors.Is.
func (malformed) Is(target error) bool { return target == ErrInvalid }

// configured sets the operator's settings in c from its configuration in the cluster. If that cannot be
// read, it returns sentences about the defaults that it assumed instead.
func configured(ctx context.Context, reader client.Reader, c *Config) (assumed []string, err error) {
	cluster, err := clusterconfig.Installed(ctx, reader, c.OperatorNamespace)
	if errors.Is(err, clusterconfig.ErrNotRead) {
		on, which, unread := meshesInUse(ctx, reader)
		c.Meshes = on
		return []string{fmt.Sprintf("%v: it is assumed that it may work in all namespaces, that patches may add no powers (%s), and that %s",
			err, power.Setting, which)}, unread
	}
	c.Namespaces, c.Powers = cluster.AllowedNamespaces, cluster.PatchPowers
	c.Meshes = Meshes{Istio: cluster.Istio, GatewayAPI: cluster.GatewayAPI, Policies: cluster.Policies, KeyHeaders: cluster.CustomHeaders}
	return nil, err
}

// meshesInUse returns the meshes by which the operator routes requests, judged by the IstioRoutes and
// GatewayAPIRoutes in the cluster, and names them.
func meshesInUse(ctx context.Context, reader client.Reader) (on Meshes, which string, err error) {
	err = meshes.EachRoute(ctx, reader, func(r crdv1.MeshRoute) {
		if _, is := r.(*crdv1.IstioRoute); is {
			on.Istio.Enabled = true
		} else {
			on.GatewayAPI.Enabled = true
		}
	})
	switch {
	case on.Istio.Enabled && on.GatewayAPI.Enabled:
		which = "Istio and the Gateway API are on, since there are IstioRoutes and GatewayAPIRoutes"
	case on.Istio.Enabled:
		which = "Istio alone is on, since there are IstioRoutes"
	case on.GatewayAPI.Enabled:
		which = "the Gateway API alone is on, since there are GatewayAPIRoutes"
	default:
		which = "neither Istio nor the Gateway API is on (istio.enabled, gatewayAPI.enabled)"
	}
	return on, which, err
}

// stepSettings returns the settings of the operator's pods of steps.
func stepSettings(ctx context.Context, reader client.Reader, operator string) (execunit.Settings, error) {
	cluster, err := clusterconfig.Installed(ctx, reader, operator)
	if err != nil {
		return execunit.Settings{}, err
	}
	getenv, err := clusterconfig.ManagerEnv(ctx, reader, operator)
	if err != nil {
		return execunit.Settings{}, err
	}
	return manager.StepSettings(getenv, operator, cluster)
}

// objectsOf returns the objects that are asked about, and sentences about those of the
// file that a dry run cannot be about.
func objectsOf(ask Question) (objects []client.Object, passed []string, err error) {
	if ask.Kind == "" {
		return manifest.Objects(ask.Text)
	}
	kind, ok := crdv1.KindCalled(ask.Kind)
	if !ok || !kind.Supported {
		return nil, nil, fmt.Errorf("a %s cannot be asked about: name a %s", ask.Kind, strings.Join(crdv1.Names(crdv1.SupportedKinds()), ", "))
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(crdv1.GroupVersion().WithKind(kind.Name))
	u.SetNamespace(ask.Namespace)
	u.SetName(ask.Name)
	return []client.Object{u}, nil, nil
}
