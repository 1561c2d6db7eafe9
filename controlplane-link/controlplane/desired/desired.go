// Package desired converts the rows of the store to the objects of a cluster. It is pure. Its errors are
// faults of the specification: they stay until that is written again.
package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/spec"
)

// Sandbox returns the object of a sandbox. plugins must have the versions in the row; others can be left
// out.
func Sandbox(row model.Sandbox, plugins []model.Plugin) (*crdv1.SignadotSandbox, error) {
	in := compile.Input{Sandbox: spec.Sandbox{Name: row.Name}, RoutingKey: row.RoutingKey, Pinned: Pinned(row)}
	if err := json.Unmarshal(row.Spec, &in.Sandbox.Spec); err != nil {
		return nil, fmt.Errorf("read the specification of sandbox %s: %w", row.Name, err)
	}
	var err error
	if in.Plugins, err = Plugins(plugins); err != nil {
		return nil, err
	}
	out, err := compile.Sandbox(in)
	if err != nil {
		return nil, err
	}
	if id := devbox(in.Sandbox.Spec); id != "" {
		out.Sandbox.Annotations[crdv1.AnnotationMachine] = id
	}
	return out.Sandbox, number(out.Sandbox, row.Spec, row.UpdatedAt, row.Generation)
}

// Group returns the object of a route group in a cluster: with the sandboxes of the organisation that it
// matches there, or with none, and with its endpoints there. nil: the group is of another cluster.
func Group(row model.RouteGroup, cluster string, all []model.Sandbox) (*crdv1.SignadotRouteGroup, error) {
	if row.Cluster != "" && row.Cluster != cluster {
		return nil, nil
	}
	asked := spec.Group{Name: row.Name}
	if err := json.Unmarshal(row.Spec, &asked.Spec); err != nil {
		return nil, fmt.Errorf("read the specification of route group %s: %w", row.Name, err)
	}
	asked.Spec.Endpoints = slices.DeleteFunc(asked.Spec.Endpoints, func(e spec.GroupEndpoint) bool { return e.Cluster != "" && e.Cluster != cluster })
	there := map[string]map[string]string{}
	for _, c := range model.Candidates(all) {
		if c.Cluster == cluster {
			there[c.Name] = c.Labels
		}
	}
	out, err := compile.Group(compile.GroupInput{Group: asked, Sandboxes: there, RoutingKey: row.RoutingKey, MatchesLater: true})
	if err != nil {
		return nil, err
	}
	return out.Group, number(out.Group, row.Spec, row.UpdatedAt, row.Generation)
}

// Plugins returns the specifications of plugins, each with its version in its name.
func Plugins(rows []model.Plugin) ([]spec.Plugin, error) {
	var out []spec.Plugin
	for _, row := range rows {
		p := spec.Plugin{Name: row.Name.String()}
		if err := json.Unmarshal(row.Spec, &p.Spec); err != nil {
			return nil, fmt.Errorf("read resource plugin %s: %w", row.Name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// Pinned returns the plugins of a sandbox as the compiler takes them: with their versions, by the name of
// the resource.
func Pinned(row model.Sandbox) map[string]string {
	out := map[string]string{}
	for resource, name := range row.Plugins {
		out[resource] = name.Bare + "@" + name.Defaulted().Version
	}
	return out
}

// devbox returns the workstation that a sandbox is bound to; empty: none.
func devbox(s spec.SandboxSpec) string {
	if s.Connection != nil {
		return cmp.Or(s.Connection.DevboxID, s.LocalMachineID)
	}
	return s.LocalMachineID
}

// number adds the specification and its generation to the annotations of an object.
func number(o crdv1.Object, text json.RawMessage, at time.Time, generation int64) error {
	o.GetAnnotations()[crdv1.AnnotationGeneration] = strconv.FormatInt(generation, 10)
	_, err := sandboxes.Keep(text, at, o)
	return err
}
