package jobrunnergroup

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/workflows/jobpod"
)

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// Pods are those of runners. Required.
	Pods controller.Pods
	// Settings have the pod template. CA returns the certificates that the pods trust, as PEM, empty while
	// they are not known; if it is nil, those in Settings are used.
	Settings jobpod.Settings
	CA       func() string
	// Limits bound how long pods with results are kept.
	Limits Limits
}

// Reconciler keeps the pods of groups. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	// memories are those of groups, by UID.
	memories sync.Map
}

// memory is what this process remembers of a group.
type memory struct {
	// wrote is when it last wrote the status.
	wrote time.Time
	// refusal is of the last pod, at the time refused; nil: it was created.
	refusal *apply.Refusal
	refused time.Time
}

// New returns a Reconciler.
func New(c Config) *Reconciler { return &Reconciler{config: c, writer: c.Writer()} }

// Reconcile brings one group further.
//
// +kubebuilder:rbac:groups=signadot.com,resources=jobrunnergroups,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=jobrunnergroups/status,verbs=patch
// +kubebuilder:rbac:groups=signadot.com,resources=jobrunnergroups/finalizers,verbs=update
func (r *Reconciler) Reconcile(ctx context.Context, g *crdv1.JobRunnerGroup) (time.Duration, error) {
	if g.DeletionTimestamp == nil {
		if err := r.writer.AddFinalizer(ctx, g); err != nil {
			return 0, err
		}
	} else if !controllerutil.ContainsFinalizer(g, crdv1.Finalizer) {
		return 0, nil
	}
	in, err := r.gather(ctx, g)
	if err != nil {
		return 0, err
	}
	d := Decide(in)
	if d.Over {
		return 0, r.end(ctx, in, d)
	}
	return r.act(ctx, in, d)
}

// Gone forgets a deleted group. The garbage collector deletes the objects that it owned.
func (r *Reconciler) Gone(context.Context, types.NamespacedName) error { return nil }

// now returns the time with the resolution of a status.
func (r *Reconciler) now() metav1.Time {
	return metav1.NewTime(r.config.Now().UTC().Truncate(time.Second))
}

// memory returns what this process remembers of a group.
func (r *Reconciler) memory(uid types.UID) memory {
	if m, known := r.memories.Load(uid); known {
		if m, is := m.(memory); is {
			return m
		}
	}
	return memory{}
}

// random returns 50 random bits as lower-case letters and digits.
func random() string { return strings.ToLower(rand.Text())[:10] }
