package sandbox

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/sandbox/census"
)

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// Namespaces are the namespaces in which members are allowed; empty means all.
	Namespaces []string
	// OperatorNamespace is the namespace of external workloads without a baseline.
	OperatorNamespace string
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
}

// Reconciler keeps the parts of sandboxes. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	census *census.Census
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	return &Reconciler{config: c, writer: c.Writer(), census: census.New(c.Live)}
}

// Reconcile brings one sandbox into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, s *crdv1.SignadotSandbox) (time.Duration, error) {
	left, over, err := r.expire(ctx, s)
	if err != nil || over {
		return 0, err
	}
	in, err := gather(ctx, r.config.Client, s, r.config)
	if err != nil {
		return 0, err
	}
	if s.DeletionTimestamp != nil {
		return r.delete(ctx, in)
	}
	if err := r.writer.AddFinalizer(ctx, s); err != nil {
		return 0, err
	}
	in, provided := provide(ctx, r.writer, in)
	decision := Decide(in)
	made, acted := act(ctx, r.writer, in, decision)
	taken, found := inTheWay(ctx, r.writer, in, made)
	made.Taken = taken
	after := Conclude(in, decision, made, metav1.NewTime(r.config.Now()))
	err = errors.Join(provided, acted, found, r.writer.Status(ctx, s, after))
	if made.refused() || taken != nil || in.refusedResource() || !in.acceptKey().IsTrue() {
		return sooner(left, apply.RefusedAgain), err
	}
	return left, err
}

// Gone deletes parts of a deleted sandbox that the cache did not have: a leader with a stale cache may
// have created one after the deletion. An event of each such part triggers it.
func (r *Reconciler) Gone(ctx context.Context, name types.NamespacedName) error {
	lists := lists.Map(crdv1.MadeKinds(), func(kind crdv1.Kind) client.ObjectList { return kind.NewList() })
	_, err := r.writer.DeleteOrphans(ctx, apply.Maker{Kind: crdv1.KindSandbox, Name: name.Name}, "", lists...)
	return err
}

// delete deletes the parts and then removes the finalizer of the sandbox.
func (r *Reconciler) delete(ctx context.Context, in Input) (time.Duration, error) {
	if after, done, err := r.release(ctx, in); err != nil || !done {
		return after, err
	}
	waitsFor, asked, err := remove(ctx, r.writer, r.census, in)
	switch {
	case err != nil, asked:
		return apply.RefusedAgain, err
	case waitsFor == "":
		return 0, r.writer.RemoveFinalizer(ctx, in.Sandbox)
	}
	after := ConcludeDeletion(in, waitsFor, metav1.NewTime(r.config.Now()))
	// The deletion of each part requeues the sandbox, and so do results of the census; the delay is for
	// parts that were found past the cache only.
	return apply.RefusedAgain, r.writer.Status(ctx, in.Sandbox, after)
}
