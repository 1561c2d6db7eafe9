package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/spec"
)

// Adoption is the result of Adopt, with objects as KIND NAME.
type Adoption struct {
	// Taken are the objects of which the store takes the specification.
	Taken []string
	// Left are objects that stay as they are until they are applied or deleted again, with the reason.
	Left []string
}

// add adds an object; left is why it stays as it is, empty: the store takes its specification.
func (a *Adoption) add(r request, left string) {
	if left != "" {
		a.Left = append(a.Left, r.String()+": "+left)
	} else {
		a.Taken = append(a.Taken, r.String())
	}
}

// Adopt takes the state of a cluster after the store was restored from a backup: the specifications of objects that
// are newer than their rows, or have none, become those of the rows, with higher generations. It writes no object
// itself. It works at any replica while the cluster has a session. dry: it changes nothing, and what the store would refuse
// is among Taken.
func (d *Delivery) Adopt(ctx context.Context, org, cluster string, dry bool) (out Adoption, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := d.newSite(ctx, registry.Cluster{Organisation: org, Name: cluster})
	if err != nil {
		return out, err
	}
	defer s.queue.ShutDown()
	defer s.runnersQueue.ShutDown()
	objects, newest, err := s.written(ctx, &out)
	self := &entry{request: request{store.Cluster, cluster}, Sandbox: model.Sandbox{Org: org, Name: cluster}}
	if err == nil && !dry {
		err = d.Store.Adopt(ctx, org, newest, s.event(self, "adopt"))
	}
	if err != nil {
		return out, err
	}
	for r, o := range objects {
		e, err := s.entry(ctx, r)
		if err != nil {
			return out, err
		}
		if e != nil && e.RoutingKey == crdv1.RoutingKeyOf(o) && decide(e, o, true, time.Now()) != newer {
			continue
		}
		left, err := s.adopt(ctx, e, r, o, dry)
		if err != nil {
			return out, err
		}
		out.add(r, left)
	}
	err = s.adoptGroups(ctx, dry, &out)
	slices.Sort(out.Taken)
	slices.Sort(out.Left)
	return out, err
}

// longestGap is how much newer than the store the objects can be that are adopted: a user of the cluster can write
// any generation, and later ones have to be higher.
const longestGap = 1 << 40

// written reads the objects of the cluster that control planes have written, except those that are being deleted, and
// returns their newest generation. Those with one that is none are left.
func (s *site) written(ctx context.Context, out *Adoption) (objects map[request]crdv1.Object, newest int64, err error) {
	present, err := s.Store.Generation(ctx, s.at.Organisation)
	if err != nil {
		return nil, 0, err
	}
	objects = map[request]crdv1.Object{}
	for kind, of := range kinds {
		all, err := of.ListObjects(ctx, s.live)
		if err != nil {
			return nil, 0, fmt.Errorf("cluster %s: %w", s.at.Name, err)
		}
		for _, o := range all {
			r, n := request{kind, o.GetName()}, crdv1.GenerationOf(o)
			if s.valid(r, o, present, out) {
				newest, objects[r] = max(newest, n), o
			}
		}
	}
	return objects, newest, nil
}

// valid reports whether a control plane has written an object that is not being deleted. One with a generation that is none is left.
func (s *site) valid(r request, o client.Object, present int64, out *Adoption) bool {
	n := crdv1.GenerationOf(o)
	if n-present > longestGap {
		out.add(r, fmt.Sprintf("its annotation %s is %d, which no control plane has written: delete it in cluster %s, and apply it again", crdv1.AnnotationGeneration, n, s.at.Name))
	}
	return n > 0 && n-present <= longestGap && o.GetDeletionTimestamp() == nil
}

// adopt writes the specification of an object to its row, which e is; nil: there is none. left is why not.
// dry: it only judges.
func (s *site) adopt(ctx context.Context, e *entry, r request, o crdv1.Object, dry bool) (left string, err error) {
	row, fault := rowOf(o, s.at.Organisation)
	switch {
	case fault != nil:
		left = fault.Error()
	case row.Cluster != s.at.Name && (row.Cluster != "" || r.kind == store.Sandbox):
		return fmt.Sprintf("its specification is of cluster %s: delete it in cluster %s", cmp.Or(row.Cluster, "\"\""), s.at.Name), nil
	case e != nil && (e.RoutingKey != row.RoutingKey || e.Cluster != row.Cluster):
		return "the store has another one of this name", nil
	case e != nil && !e.DeletedAt.IsZero():
		left = "it is deleted, as in the store"
	}
	if dry {
		return left, nil
	}
	if e != nil {
		status := e.part
		status.Adopted = max(crdv1.GenerationOf(o), status.Newer)
		err = s.record(ctx, e, status)
	}
	if left != "" || err != nil {
		return left, err
	}
	ev := s.event(&entry{request: r, Sandbox: row}, "adopt")
	if r.kind == store.Sandbox {
		_, fault = s.Store.PutSandbox(ctx, row, ev)
	} else {
		_, fault = s.Store.PutRouteGroup(ctx, model.RouteGroup(row), ev)
	}
	if fault != nil {
		left = fault.Error()
	}
	return left, nil
}

// rowOf returns the row that an object was written from.
func rowOf(o crdv1.Object, org string) (row model.Sandbox, err error) {
	row = model.Sandbox{
		Org: org, Name: o.GetName(), RoutingKey: crdv1.RoutingKeyOf(o), Spec: sandboxes.Specification(o), Author: observed.AuthorOf(o, org),
		CreatedAt: o.GetCreationTimestamp().UTC(), UpdatedAt: time.Now().UTC(), Plugins: map[string]spec.PluginName{},
	}
	var of struct{ Cluster string }
	if json.Unmarshal(row.Spec, &of) != nil {
		return row, fmt.Errorf("its annotation %s has no specification: apply it again", crdv1.AnnotationSpecification)
	}
	row.Cluster = of.Cluster
	if s, is := o.(*crdv1.SignadotSandbox); is {
		for _, r := range s.Spec.ManagedResources {
			name, unknown := spec.ParsePluginName(r.PluginName)
			row.Plugins[r.Name], err = name.Defaulted(), cmp.Or(err, unknown)
		}
	}
	return row, err
}
