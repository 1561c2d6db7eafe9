package unsupported

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Kind is a kind of objects that this version does not act on. Its values come from
// Kinds.
type Kind struct {
	// Name is the kind as objects give it.
	Name string
	// New returns an empty object of the kind.
	New func() crdv1.Object
	// conclude returns the object with its status.
	conclude func(o crdv1.Object, now metav1.Time) crdv1.Object
}

// Kinds returns the kinds that this version does not act on.
func Kinds() []Kind {
	const keep = "Delete it, or keep it for a version that does."
	return []Kind{
		kind(crdv1.KindJob, "run jobs", keep,
			func(o *crdv1.Job) *int64 { return &o.Status.ObservedGeneration }),
		kind(crdv1.KindJobRunnerGroup, "start job runners", keep,
			func(o *crdv1.JobRunnerGroup) *int64 { return &o.Status.ObservedGeneration }),
		kind(crdv1.KindResource, "run the workflows of resource plugins", "It becomes Ready only when another program provides it and writes its status.",
			func(o *crdv1.Resource) *int64 { return &o.Status.ObservedGeneration }),
		kind(crdv1.KindLifecycleMethods, "run the units of lifecycle methods", keep,
			func(o *crdv1.SignadotObjectLifecycleMethods) *int64 { return &o.Status.ObservedGeneration }),
	}
}

// kind makes a Kind: lacks is what this version does not do, advice a sentence that says
// what that means for the author of an object, and observed the place of its
// status.observedGeneration.
func kind[T any, P interface {
	*T
	crdv1.Object
	DeepCopy() *T
}](name, lacks, advice string, observed func(*T) *int64) Kind {
	return Kind{
		Name: name,
		New:  func() crdv1.Object { return P(new(T)) },
		conclude: func(o crdv1.Object, now metav1.Time) crdv1.Object {
			have, ok := o.(P)
			if !ok {
				return o
			}
			after := have.DeepCopy()
			*observed(after) = have.GetGeneration()
			write(P(after), "Nothing acts on "+name+" "+place(o)+": this version does not "+lacks+". "+advice, now)
			return P(after)
		},
	}
}
