package dryrun

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/dryrun/meshtrial"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/routing"
)

// Meshes are the meshes that are on, as the configuration of the operator has it.
type Meshes = meshtrial.Meshes

// routersOn returns the simulation of the meshes that are on.
func routersOn(w *world, c Config) *meshtrial.Routers {
	var mapper meta.RESTMapper
	if with, is := c.Reader.(interface{ RESTMapper() meta.RESTMapper }); is {
		mapper = with.RESTMapper()
	} else if c.Client != nil {
		mapper = c.Client.RESTMapper()
	}
	return meshtrial.New(meshtrial.Config{
		Client: w, Reader: c.Reader, Mapper: mapper, Namespaces: c.Namespaces, Meshes: c.Meshes, Note: w.noteUnknown,
	})
}

// meshChanges returns the objects of meshes that would be written.
func (s *simulation) meshChanges() (out []Change) {
	for _, c := range s.meshes.Changes() {
		action := Update
		switch {
		case c.Created:
			action = Create
		case c.Deleted:
			action = Remove
		}
		out = append(out, Change{Object{c.Kind, c.Name.Namespace, c.Name.Name}, action})
	}
	return out
}

// afterMeshes is for how long objects that are deleted wait for meshes at most (routingconfig).
const afterMeshes = 15 * time.Second

// route syncs the meshes that are on with the statements, and enqueues the MeshRoutes with
// changed reports. Once these are at rest it lets the time pass for which a RoutingConfig
// that is being deleted waits for meshes.
func (s *simulation) route(ctx context.Context) error {
	if !s.meshes.On() {
		return nil
	}
	facts := slices.SortedFunc(maps.Values(s.statements.newest), byPosition)
	changed, err := s.meshes.Route(ctx, facts)
	if err != nil {
		return err
	}
	for kind, targets := range changed {
		all, err := s.world.all(ctx, crdv1.GroupVersion().WithKind(kind))
		if err != nil {
			return err
		}
		for _, o := range all {
			if r, is := o.(crdv1.MeshRoute); is && slices.Contains(targets, meshes.TargetOf(r)) {
				s.enqueue(identityOf(kind, "", o.GetName()))
			}
		}
	}
	if len(s.queue) > 0 {
		return nil
	}
	for _, id := range s.world.wrote {
		o := s.world.current(id)
		if id.Kind == crdv1.KindRoutingConfig && o != nil && o.GetDeletionTimestamp() != nil && !s.waited[id] {
			s.waited[id] = true
			s.enqueue(id)
		}
	}
	if len(s.queue) > 0 {
		s.world.now = s.world.now.Add(afterMeshes)
	}
	return nil
}

// ReasonRoutedByMesh is the reason of a finding about a workload that lacks sidecars, and that a mesh
// routes.
const ReasonRoutedByMesh = "RoutedByMesh"

// besideMeshes returns a finding of a member or of a mesh route, adjusted for the meshes that are on,
// and whether it counts. A workload that lacks sidecars is a problem only if no mesh routes it.
// Problems of a mesh count only in the other conditions of the RoutingConfig, or its owner.
func (s *simulation) besideMeshes(o any, f Finding) (Finding, bool) {
	if _, is := o.(crdv1.MeshRoute); is || f.Type == routing.ConditionIstioRoutesReady || f.Type == routing.ConditionGatewayAPIRoutesReady {
		return f, false
	}
	if s.meshes.NotKnown(f.Message) {
		f.Status = string(metav1.ConditionUnknown)
		f.Message = "Whether a mesh routes its requests is not known, since the objects of the mesh could not be read."
		return f, true
	}
	m, is := o.(crdv1.Member)
	if !is || !s.meshes.On() || f.Type != baseline.ConditionSidecarsReady || f.Reason != baseline.ReasonSidecarAbsent {
		return f, true
	}
	routed, unsure := f, false
	for id := range s.world.read {
		c, is := s.world.current(id).(*crdv1.RoutingConfig)
		if !is || !names(c, m) {
			continue
		}
		said := crdv1.FindCondition(c.Status.Conditions, baseline.ConditionSidecarsReady)
		switch {
		case said != nil && (said.Status == string(metav1.ConditionUnknown) || s.meshes.NotKnown(said.Message)):
			unsure = true
		case said == nil, said.Status == string(metav1.ConditionFalse):
			return f, true
		default:
			routed = Finding{f.Object, f.Type, ReasonRoutedByMesh, said.Status, said.Message}
		}
	}
	if unsure {
		f.Status = string(metav1.ConditionUnknown)
		return f, true
	}
	return routed, true
}
