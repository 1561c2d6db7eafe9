package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/sandbox"
)

// kept returns the values that the units of an object have given before this update, by uncached reads.
func (r *Reviewer) kept(ctx context.Context, req *admissionv1.AdmissionRequest, o runtime.Object) ([]Kept, error) {
	if req.Operation != admissionv1.Update || r.values.Client == nil {
		return nil, nil
	}
	switch o := o.(type) {
	case *crdv1.SignadotSandbox:
		return r.keptOfSandbox(ctx, req, o)
	case *crdv1.Resource:
		var old crdv1.Resource
		if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
			return nil, fmt.Errorf("read Resource %s as it was: %w", o.Name, err)
		}
		k, err := r.keptOf(ctx, o.Name, "spec.olm", old.Spec.OLM)
		return []Kept{k}, err
	case *crdv1.SignadotObjectLifecycleMethods:
		var old crdv1.SignadotObjectLifecycleMethods
		if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
			return nil, fmt.Errorf("read %s %s as it was: %w", crdv1.KindLifecycleMethods, o.Name, err)
		}
		k := Kept{At: "spec"}
		err := r.keptBy(ctx, &old, &k)
		return []Kept{k}, err
	}
	return nil, nil
}

// keptOfSandbox returns the values of the resources that a sandbox keeps.
func (r *Reviewer) keptOfSandbox(ctx context.Context, req *admissionv1.AdmissionRequest, s *crdv1.SignadotSandbox) ([]Kept, error) {
	var old crdv1.SignadotSandbox
	if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
		return nil, fmt.Errorf("read SignadotSandbox %s as it was: %w", s.Name, err)
	}
	var out []Kept
	for i, resource := range s.Spec.ManagedResources {
		var before crdv1.OLM
		if at := slices.IndexFunc(old.Spec.ManagedResources, func(r crdv1.SandboxResource) bool { return r.Name == resource.Name }); at >= 0 {
			before = old.Spec.ManagedResources[at].OLM
		}
		k, err := r.keptOf(ctx, sandbox.ResourceName(s, resource.Name), fmt.Sprintf("spec.managedResources[%d].olm", i), before)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// keptOf reads the values that the units of a Resource have given. before are its units in the object
// under change, which the Resource may not have yet.
func (r *Reviewer) keptOf(ctx context.Context, resource, at string, before crdv1.OLM) (Kept, error) {
	k := Kept{At: at, Units: slices.Concat(before.PreStart, before.PostStop)}
	var m crdv1.SignadotObjectLifecycleMethods
	err := r.values.Client.Get(ctx, client.ObjectKey{Name: resource}, &m)
	if client.IgnoreNotFound(err) != nil {
		return k, fmt.Errorf("read %s %s: %w", crdv1.KindLifecycleMethods, resource, err)
	}
	owner := metav1.GetControllerOfNoCopy(&m)
	if err != nil || owner == nil || owner.Kind != crdv1.KindResource || owner.Name != resource {
		return k, nil
	}
	return k, r.keptBy(ctx, &m, &k)
}

// keptBy adds the units of a SignadotObjectLifecycleMethods and the values that they have given.
func (r *Reviewer) keptBy(ctx context.Context, m *crdv1.SignadotObjectLifecycleMethods, k *Kept) (err error) {
	k.Units = slices.Concat(k.Units, m.Spec.PreStart, m.Spec.PostStop)
	k.Status = slices.Concat(m.Status.PreCreate, m.Status.PostStop)
	k.Values, err = r.values.Rights(ctx, m)
	return err
}
