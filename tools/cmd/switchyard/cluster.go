package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/routing"
	"switchyard.dev/workflows/execunit"
)

// silent takes what libraries would write between the lines of an answer.
var silent = slog.New(slog.DiscardHandler)

// plan lets the controllers say what they would do, reading the cluster with the
// user's own rights.
func plan(ctx context.Context, access *rest.Config, ask routing.Question) (routing.Plan, error) {
	scheme, err := dryrun.Scheme()
	if err != nil {
		return routing.Plan{}, err
	}
	c, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return routing.Plan{}, fmt.Errorf("reach the cluster: %w", err)
	}
	objects, passed, err := objectsOf(ask)
	if err != nil {
		return routing.Plan{}, fmt.Errorf("%w: %w", exit.ErrUsage, err)
	}
	if len(objects) == 0 {
		return routing.Plan{Unknown: passed}, nil // Nothing of ours would change.
	}
	config := dryrun.Config{Reader: c, Client: c, OperatorNamespace: ask.Operator}
	config.Steps = func(ctx context.Context) (execunit.Settings, error) { return stepSettings(ctx, c, ask.Operator) }
	assumed, err := configured(ctx, c, &config)
	if err != nil {
		return routing.Plan{}, err
	}
	do := dryrun.Apply
	if ask.Delete {
		do = dryrun.Delete
	}
	p, err := do(ctx, config, objects...)
	if errors.Is(err, dryrun.ErrInvalid) || errors.Is(err, dryrun.ErrNotSupported) || errors.Is(err, dryrun.ErrNoObject) {
		return routing.Plan{}, fmt.Errorf("%w: %w", exit.ErrUsage, err)
	}
	if err != nil {
		return routing.Plan{}, err
	}
	out := planOf(p)
	out.Unknown = slices.Concat(passed, assumed, out.Unknown)
	return out, nil
}

// What holds the configuration of the operator in the cluster, as the chart has it.
const (
	configName = "cluster-config"
	configFile = "cluster_config.yaml"
)

// errNotRead says that the operator's configuration could not be read, so that
// nobody knows what it says.
var errNotRead = errors.New("the operator's configuration was not read")

// configuration reads the operator's configuration from the cluster. The error is
// errNotRead when it is not there or may not be read.
func configuration(ctx context.Context, reader client.Reader, operator string) (manager.Cluster, error) {
	var held corev1.ConfigMap
	err := reader.Get(ctx, client.ObjectKey{Namespace: operator, Name: configName}, &held)
	text, there := held.Data[configFile]
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return manager.Cluster{}, fmt.Errorf("%w (%w)", errNotRead, err)
	case err != nil:
		return manager.Cluster{}, fmt.Errorf("read the operator's configuration: %w", err)
	case !there:
		return manager.Cluster{}, fmt.Errorf("%w (ConfigMap %s/%s has no %s)", errNotRead, operator, configName, configFile)
	}
	cluster, err := manager.ParseCluster([]byte(text))
	if err != nil {
		return manager.Cluster{}, fmt.Errorf("the operator's configuration, ConfigMap %s/%s, is not valid, so that it would not start: %w", operator, configName, err)
	}
	return cluster, nil
}

// keyHeaders returns the headers of the cluster that carry a key as their whole value; none where
// the operator's configuration may not be read.
func keyHeaders(ctx context.Context, access *rest.Config, operator string) []string {
	c, err := client.New(access, client.Options{})
	if err != nil {
		return nil
	}
	cluster, err := configuration(ctx, c, operator)
	if err != nil {
		return nil
	}
	return cluster.CustomHeaders
}

// configured has a dry run go by the configuration of the operator that is in the
// cluster. Where that cannot be read, the sentences say what was assumed instead.
func configured(ctx context.Context, reader client.Reader, c *dryrun.Config) (assumed []string, err error) {
	cluster, err := configuration(ctx, reader, c.OperatorNamespace)
	if errors.Is(err, errNotRead) {
		on, which, unread := meshesInUse(ctx, reader)
		c.Meshes = on
		return []string{fmt.Sprintf("%v: it is assumed that it may work in all namespaces, that patches may add no powers (%s), and that %s",
			err, power.Setting, which)}, unread
	}
	c.Namespaces, c.Powers = cluster.AllowedNamespaces, cluster.PatchPowers
	c.Meshes = dryrun.Meshes{Istio: cluster.Istio, GatewayAPI: cluster.GatewayAPI, Policies: cluster.Policies, KeyHeaders: cluster.CustomHeaders}
	return nil, err
}

// meshesInUse returns the meshes by which the operator routes requests, judged by the IstioRoutes and
// GatewayAPIRoutes in the cluster, and names them.
func meshesInUse(ctx context.Context, reader client.Reader) (on dryrun.Meshes, which string, err error) {
	err = meshRoutes(ctx, reader, func(r crdv1.MeshRoute) {
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

// stepSettings returns how the operator's pods of steps look.
func stepSettings(ctx context.Context, reader client.Reader, operator string) (execunit.Settings, error) {
	cluster, err := configuration(ctx, reader, operator)
	if err != nil {
		return execunit.Settings{}, err
	}
	getenv, err := managerEnv(ctx, reader, operator)
	if err != nil {
		return execunit.Settings{}, err
	}
	return manager.StepSettings(getenv, operator, cluster)
}

func planOf(p dryrun.Plan) routing.Plan {
	out := routing.Plan{Statements: p.Statements, Unknown: p.Unknown, InTheWay: len(p.Refusals) > 0 || slices.ContainsFunc(p.Findings, dryrun.Finding.InTheWay)}
	for _, r := range p.Refusals {
		out.Refusals = append(out.Refusals, fmt.Sprintf("%s: %s", r.Object, r.Message))
	}
	for _, c := range p.Changes {
		out.Objects = append(out.Objects, string(c.Action)+" "+c.Object.String())
	}
	for _, f := range p.Findings {
		out.Findings = append(out.Findings, fmt.Sprintf("%s: %s is %s (%s): %s", f.Object, f.Type, f.Status, f.Reason, f.Message))
	}
	return out
}

// objectsOf returns the objects that are asked about, and sentences about those of the
// file that a dry run cannot be about.
func objectsOf(ask routing.Question) (objects []client.Object, passed []string, err error) {
	if ask.Kind == "" {
		return ours(ask.Text)
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

// witness reads the mark of the log that the operator keeps beside it.
func witness(ctx context.Context, access *rest.Config, namespace string) (event.Mark, error) {
	reader, err := client.New(access, client.Options{})
	if err != nil {
		return event.Mark{}, fmt.Errorf("reach the cluster: %w", err)
	}
	w, err := publish.Epochs{Reader: reader, Namespace: namespace}.Load(ctx)
	return w.Mark, err
}
