package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
)

// Adoption is what Adopt has done, with objects as "sandbox NAME" and "routegroup NAME".
type Adoption struct {
	// Taken are the objects of which the store has taken the specification.
	Taken []string
	// Left are objects that stay as they are until they are applied or deleted again, with the reason.
	Left []string
}

// Newer lists the objects of a cluster that are newer than the store, which is from a backup: nothing writes
// them until Adopt. It lists those that were seen during a session since.
func Newer(ctx context.Context, in *store.Store, org, cluster string) (names []string, err error) {
	rows, err := in.SandboxesOf(ctx, org, cluster)
	for _, row := range rows {
		if row.Status.Newer > row.Status.Adopted {
			names = append(names, string(store.Sandbox)+" "+row.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	all, err := in.RouteGroups(ctx, org)
	for _, row := range all {
		if part := row.Status.Clusters[cluster]; part.Newer > part.Adopted {
			names = append(names, string(store.RouteGroup)+" "+row.Name)
		}
	}
	return names, err
}

// adoption is an Adopt that runs.
type adoption struct {
	*Delivery
	org, cluster string
	out          Adoption
}

// Adopt takes the state of a cluster after the store was restored from a backup: specifications of objects that
// are newer than their rows, or have none, become those of the rows, with higher generations. It changes no
// object itself. It works at any replica while the cluster has a session.
func (d *Delivery) Adopt(ctx context.Context, org, cluster string) (Adoption, error) {
	pool := d.Server.Transport(registry.Cluster{Organisation: org, Name: cluster}, nil)
	defer pool.CloseIdleConnections()
	from, err := newClient(&http.Client{Transport: pool})
	if err != nil {
		return Adoption{}, err
	}
	var sandboxes crdv1.SignadotSandboxList
	var groups crdv1.SignadotRouteGroupList
	for _, list := range []client.ObjectList{&sandboxes, &groups} {
		if err := from.List(ctx, list); err != nil {
			return Adoption{}, fmt.Errorf("read the objects of cluster %s: %w", cluster, err)
		}
	}
	var objects []crdv1.Object
	for i := range sandboxes.Items {
		objects = append(objects, &sandboxes.Items[i])
	}
	for i := range groups.Items {
		objects = append(objects, &groups.Items[i])
	}
	newest := int64(0)
	for _, o := range objects {
		newest = max(newest, generationOf(o))
	}
	a := adoption{Delivery: d, org: org, cluster: cluster}
	if err := d.Store.Adopt(ctx, org, newest, event(org, "cluster.adopt", d.Now(), map[string]any{"name": cluster, "generation": newest})); err != nil {
		return a.out, err
	}
	for _, o := range objects {
		if generationOf(o) == 0 || o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := a.object(ctx, o); err != nil {
			return a.out, err
		}
	}
	return a.out, nil
}

// object takes one object, unless its row has what it has.
func (a *adoption) object(ctx context.Context, o crdv1.Object) error {
	s := &site{Delivery: a.Delivery, agent: &server.Agent{Cluster: registry.Cluster{Organisation: a.org, Name: a.cluster}}}
	kind := store.Sandbox
	if _, is := o.(*crdv1.SignadotRouteGroup); is {
		kind = store.RouteGroup
	}
	name := string(kind) + " " + o.GetName()
	e, err := s.entry(ctx, request{kind, o.GetName()})
	switch {
	case err != nil:
		return err
	case e == nil:
		e = &entry{request: request{kind, o.GetName()}, Sandbox: model.Sandbox{Org: a.org, Name: o.GetName(), RoutingKey: keyOf(o)}}
	case e.RoutingKey != keyOf(o):
		a.out.Left = append(a.out.Left, name+": the store has another one of this name")
		return nil
	case generationOf(o) <= e.Generation && e.part.Newer <= e.part.Adopted:
		return nil
	}
	status := statusOf(o, e.part)
	if why := a.take(ctx, e, o); why != "" {
		a.out.Left = append(a.out.Left, name+": "+why)
		status = reported(e.part, max(e.Generation, e.part.Generation), e.part.Reason, e.part.Message)
		status.Newer, status.Adopted = 0, max(generationOf(o), e.part.Newer)
	} else {
		a.out.Taken = append(a.out.Taken, name)
	}
	return s.record(ctx, e, status)
}

// take writes the specification of an object to its row, or returns why not.
func (a *adoption) take(ctx context.Context, e *entry, o crdv1.Object) (why string) {
	if !e.DeletedAt.IsZero() {
		return "it is deleted now, as the store has it"
	}
	var noted struct {
		Spec json.RawMessage `json:"spec"`
	}
	if json.Unmarshal([]byte(o.GetAnnotations()[crdv1.AnnotationSpecification]), &noted) != nil || len(noted.Spec) == 0 {
		return "its specification is not in the object: apply it again"
	}
	var of struct {
		Cluster string `json:"cluster"`
	}
	if err := json.Unmarshal(noted.Spec, &of); err != nil {
		return err.Error()
	}
	now := a.Now()
	row := model.Sandbox{
		Org: a.org, Name: o.GetName(), Cluster: of.Cluster, RoutingKey: keyOf(o), Spec: noted.Spec, CreatedAt: o.GetCreationTimestamp().UTC(), UpdatedAt: now,
		Author: authorIn(o, a.org), Plugins: map[string]spec.PluginName{},
	}
	ev := event(a.org, string(e.kind)+".adopt", now, map[string]any{"name": row.Name, "cluster": a.cluster})
	var err error
	if s, is := o.(*crdv1.SignadotSandbox); is {
		for _, r := range s.Spec.ManagedResources {
			if name, err := spec.ParsePluginName(r.PluginName); err == nil {
				row.Plugins[r.Name] = name.Defaulted()
			}
		}
		_, err = a.Store.PutSandbox(ctx, row, ev)
	} else {
		_, err = a.Store.PutRouteGroup(ctx, model.RouteGroup{
			Org: row.Org, Name: row.Name, Cluster: row.Cluster, RoutingKey: row.RoutingKey, Spec: row.Spec, CreatedAt: row.CreatedAt, UpdatedAt: now, Author: row.Author,
		}, ev)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
