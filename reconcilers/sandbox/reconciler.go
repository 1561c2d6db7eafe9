package sandbox

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// Config is what a Reconciler needs.
type Config struct {
	apply.Access
	// Namespaces are those in which members may be made; empty means all.
	Namespaces []string
	// OperatorNamespace is where external workloads without a baseline are made.
	// Required.
	OperatorNamespace string
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
}

// Validate names what is missing.
func (c Config) Validate() error {
	if c.OperatorNamespace == "" {
		return errors.New("sandbox: an OperatorNamespace is required")
	}
	if err := c.Access.Validate(); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return nil
}

// Reconciler keeps the parts of sandboxes. Make one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	census *census
}

// New returns a Reconciler, or what is wrong with the configuration.
func New(c Config) (*Reconciler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Reconciler{config: c, writer: c.Writer(), census: newCensus(c.Live)}, nil
}

// Reconcile brings one sandbox into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s := &crdv1.SignadotSandbox{}
	if err := r.config.Client.Get(ctx, req.NamespacedName, s); apierrors.IsNotFound(err) {
		return apply.Again(deleteOrphans(ctx, r.config.Client, r.writer, req.Name))
	} else if err != nil {
		return reconcile.Result{}, err
	}
	in, err := gather(ctx, r.config.Client, s, r.config)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.DeletionTimestamp != nil {
		return r.delete(ctx, in)
	}
	if err := r.writer.AddFinalizer(ctx, s); err != nil {
		return apply.Again(err)
	}
	in, provided := provide(ctx, r.writer, in)
	decision := Decide(in)
	made, acted := act(ctx, r.writer, in, decision)
	after := Conclude(in, decision, made, metav1.NewTime(r.config.Now()))
	if err := errors.Join(provided, acted, r.writer.Status(ctx, s, after)); err != nil {
		return apply.Again(err)
	}
	if made.refused() || in.refusedResource() || !mayHaveParts(in) {
		return reconcile.Result{RequeueAfter: apply.RefusedAgain}, nil
	}
	return reconcile.Result{}, nil
}

// delete removes the parts and lets the sandbox go.
func (r *Reconciler) delete(ctx context.Context, in Input) (reconcile.Result, error) {
	if result, done, err := r.letGo(ctx, in); err != nil {
		return apply.Again(err)
	} else if !done {
		return result, nil
	}
	waitsFor, asked, err := remove(ctx, r.writer, r.census, in)
	switch {
	case err != nil:
		return apply.Again(err)
	case asked:
		return reconcile.Result{RequeueAfter: apply.RefusedAgain}, nil
	case waitsFor == "":
		return apply.Again(r.writer.RemoveFinalizer(ctx, in.Sandbox))
	}
	after := ConcludeDeletion(in, waitsFor, metav1.NewTime(r.config.Now()))
	if err := r.writer.Status(ctx, in.Sandbox, after); err != nil {
		return apply.Again(err)
	}
	// The end of each part leads back here, and so does what the census finds; the time
	// is for parts that were found past the cache only.
	return reconcile.Result{RequeueAfter: apply.RefusedAgain}, nil
}
