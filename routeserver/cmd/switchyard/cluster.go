package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/routeserver/cli"
	"switchyard.dev/xds/routingkey"
)

// silent takes what libraries would write between the lines of an answer.
var silent = slog.New(slog.DiscardHandler)

// kinds are those that a dry run can be about, as they may be written.
var kinds = map[string]string{
	"signadotsandbox": crdv1.KindSandbox, "signadotsandboxes": crdv1.KindSandbox, "sandbox": crdv1.KindSandbox,
	"routingconfig": crdv1.KindRoutingConfig, "routingconfigs": crdv1.KindRoutingConfig,
	"forkedworkload": crdv1.KindForkedWorkload, "forkedworkloads": crdv1.KindForkedWorkload,
	"signadotexternalworkload": crdv1.KindExternalWorkload, "signadotexternalworkloads": crdv1.KindExternalWorkload,
	"virtualworkload": crdv1.KindVirtualWorkload, "virtualworkloads": crdv1.KindVirtualWorkload,
	"signadotroutegroup": crdv1.KindRouteGroup, "signadotroutegroups": crdv1.KindRouteGroup, "routegroup": crdv1.KindRouteGroup,
}

// plan lets the controllers say what they would do, reading the cluster with the
// user's own rights.
func plan(ctx context.Context, access *rest.Config, ask cli.PlanRequest) (cli.Plan, error) {
	scheme, err := dryrun.Scheme()
	if err != nil {
		return cli.Plan{}, err
	}
	reader, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return cli.Plan{}, fmt.Errorf("reach the cluster: %w", err)
	}
	object, err := objectOf(ask)
	if err != nil {
		return cli.Plan{}, fmt.Errorf("%w: %w", cli.ErrUsage, err)
	}
	do := dryrun.Apply
	if ask.Delete {
		do = dryrun.Delete
	}
	p, err := do(ctx, dryrun.Config{Reader: reader}, object)
	if errors.Is(err, dryrun.ErrInvalid) || errors.Is(err, dryrun.ErrNotSupported) || errors.Is(err, dryrun.ErrNoObject) {
		return cli.Plan{}, fmt.Errorf("%w: %w", cli.ErrUsage, err)
	}
	if err != nil {
		return cli.Plan{}, err
	}
	return planOf(p), nil
}

func planOf(p dryrun.Plan) cli.Plan {
	out := cli.Plan{Statements: p.Statements}
	for _, c := range p.Changes {
		out.Objects = append(out.Objects, string(c.Action)+" "+c.Object.String())
	}
	for _, f := range p.Findings {
		out.Findings = append(out.Findings, fmt.Sprintf("%s: %s is %s (%s): %s", f.Object, f.Type, f.Status, f.Reason, f.Message))
	}
	return out
}

// objectOf gives the object that is asked about.
func objectOf(ask cli.PlanRequest) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if ask.Kind == "" {
		return parsed(ask.Text)
	}
	kind, ok := kinds[strings.ToLower(strings.TrimSuffix(ask.Kind, ".signadot.com"))]
	if !ok {
		return nil, fmt.Errorf("a %s cannot be asked about: name a SignadotSandbox, SignadotRouteGroup, RoutingConfig, ForkedWorkload, SignadotExternalWorkload or VirtualWorkload", ask.Kind)
	}
	u.SetGroupVersionKind(crdv1.GroupVersion().WithKind(kind))
	u.SetNamespace(ask.Namespace)
	u.SetName(ask.Name)
	return u, nil
}

// parsed reads one object in YAML or JSON.
func parsed(text []byte) (*unstructured.Unstructured, error) {
	var only []byte
	for _, document := range strings.Split("\n"+string(text), "\n---") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		if only != nil {
			return nil, errors.New("the file holds several objects: a dry run is about one")
		}
		only = []byte(document)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(only, &u.Object); err != nil {
		return nil, fmt.Errorf("the file does not read as an object: %w", err)
	}
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return nil, errors.New("the file is no object of Kubernetes: it says no apiVersion or no kind")
	}
	return u, nil
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

// keys reads the routing key of a request as the sidecars do.
func keys(lines func(name string) []string) (key, header string) {
	for _, name := range []string{routingkey.Baggage, routingkey.Tracestate} {
		only := func(asked string) []string {
			if strings.EqualFold(asked, name) {
				return lines(asked)
			}
			return nil
		}
		if key := routingkey.Of(only, nil); key != "" {
			return key, name
		}
	}
	return "", ""
}
