package lifecyclemethods

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/grant"
	"switchyard.dev/workflows/iocontext/store"
)

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// Pods are those of units. Required.
	Pods controller.Pods
	// Settings have the pod template and timeouts of units. CA returns the CAs that the pods trust, as
	// PEM; if it is nil, those in Settings are used.
	Settings execunit.Settings
	CA       func() string
	// Values keeps the values of units.
	Values store.Store
	// AtOnce is the maximum number of units of one graph that run at the same time; 0: no limit.
	AtOnce int
	// Sign signs the grants of pods with the operator's authority. Required.
	Sign grant.Signer
	// Random returns the random part of a pod's name: lower-case letters and digits. Default: 80 bits.
	Random func() string
}

// Reconciler runs units. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	values store.Store
	// synced has the UIDs of objects: this process has copied their values from where an earlier
	// release keeps them.
	synced sync.Map
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	if c.Random == nil {
		c.Random = random
	}
	return &Reconciler{config: c, writer: c.Writer(), values: c.Values}
}

// Reconcile brings one object further.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotobjectlifecyclemethods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotobjectlifecyclemethods/status,verbs=patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotobjectlifecyclemethods/finalizers,verbs=update
func (r *Reconciler) Reconcile(ctx context.Context, o *crdv1.SignadotObjectLifecycleMethods) (time.Duration, error) {
	if o.DeletionTimestamp == nil {
		if err := r.writer.AddFinalizer(ctx, o); err != nil {
			return 0, err
		}
	} else if !held(o) {
		return 0, nil
	}
	in, err := r.gather(ctx, o)
	if err != nil {
		return 0, err
	}
	if err := r.orphans(ctx, o.Name, o.UID); err != nil {
		return 0, err
	}
	d := Decide(in)
	if d.Over {
		return 0, r.end(ctx, in, d)
	}
	return r.act(ctx, in, d)
}

// sync copies values of an earlier release before anything of an object is decided: once in a process,
// and as long as a unit is running, since its outputs may be new. It is called after the pods are read:
// when one has succeeded, its outputs are copied before a pod that reads them is created.
func (r *Reconciler) sync(ctx context.Context, o *crdv1.SignadotObjectLifecycleMethods) error {
	running := func(st crdv1.WorkUnitStatus) bool { return st.Phase == crdv1.UnitRunning }
	_, done := r.synced.Load(o.UID)
	if done && !slices.ContainsFunc(o.Status.PreCreate, running) && !slices.ContainsFunc(o.Status.PostStop, running) {
		return nil
	}
	if err := r.values.Sync(ctx, o); err != nil {
		return err
	}
	r.synced.Store(o.UID, true)
	return nil
}

// Gone deletes remaining pods of a deleted object. Other pods and values belong to an existing object,
// which keeps its finalizer until they are deleted.
func (r *Reconciler) Gone(ctx context.Context, name types.NamespacedName) error {
	return r.orphans(ctx, name.Name, "")
}

// now returns the time with the resolution of a status.
func (r *Reconciler) now() metav1.Time {
	return metav1.NewTime(r.config.Now().UTC().Truncate(time.Second))
}
