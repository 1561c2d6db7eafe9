package forkedworkload

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/coverage"
)

// refusedAgain is when something that was refused is tried again without any
// change that we could see, such as of rights or of somebody else's object.
const refusedAgain = 15 * time.Second

// Config is what a Reconciler needs. All fields but Dial and Injected are
// required.
type Config struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Publisher puts facts on the routing log.
	Publisher publish.Publisher
	// Now gives the time for conditions and facts.
	Now func() time.Time
	// Dial tries whether the fork's Services answer; DialTCP when it is nil.
	Dial Dial
	// Injected are the images of sidecars that pods get now; those that are empty
	// are not known, and no pod is called outdated for them.
	Injected coverage.Images
}

// Validate names what is missing.
func (c Config) Validate() error {
	if c.Client == nil || c.Live == nil || c.Publisher == nil || c.Now == nil {
		return errors.New("forkedworkload: Client, Live, Publisher and Now are all required")
	}
	return nil
}

// Reconciler keeps the forks of ForkedWorkloads. Make one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
}

// New gives a Reconciler, or what is wrong with the configuration.
func New(c Config) (*Reconciler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Dial == nil {
		c.Dial = DialTCP
	}
	return &Reconciler{config: c, writer: apply.Writer{Client: c.Client, Live: c.Live}}, nil
}

// Reconcile brings one ForkedWorkload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &crdv1.ForkedWorkload{}
	if err := r.config.Client.Get(ctx, req.NamespacedName, w); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.config.Publisher.Settle(key(req.Namespace, req.Name))
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if w.DeletionTimestamp != nil {
		return apply.Again(r.delete(ctx, w))
	}
	if err := r.writer.AddFinalizer(ctx, w); err != nil {
		return apply.Again(err)
	}
	in, err := gather(ctx, r.config.Client, w)
	if err != nil {
		return reconcile.Result{}, err
	}
	in.Injected = r.config.Injected
	decision := Decide(in)
	made, acted := act(ctx, r.writer, in, decision)
	made.Silent = r.silent(ctx, w, made)
	after := Conclude(in, decision, made, metav1.NewTime(r.config.Now()))
	stated, err := r.publish(ctx, after, decision, made)
	switch {
	case publish.Refused(err):
		after, err = ConcludeRefused(after, err.Error(), metav1.NewTime(r.config.Now())), nil
	case err != nil:
		after = ConcludeUnrecorded(after, err.Error(), metav1.NewTime(r.config.Now()))
	case stated && acted == nil:
		acted = prune(ctx, r.writer, decision)
	}
	if err := errors.Join(acted, err, r.writer.Status(ctx, w, after)); err != nil {
		return apply.Again(err)
	}
	return reconcile.Result{RequeueAfter: lookAgain(made)}, nil
}

// lookAgain says after what time to look again although nothing has changed
// that we are told of; zero for never.
func lookAgain(made Made) time.Duration {
	switch {
	case made.Silent != "":
		return reachAgain
	case made.ForkRefusal != nil || len(made.ServiceRefusals) > 0:
		return refusedAgain
	}
	return 0
}

// publish states the fact, if there is one to state, and says whether it is on
// the log.
func (r *Reconciler) publish(ctx context.Context, w *crdv1.ForkedWorkload, d Decision, made Made) (stated bool, err error) {
	fact, ok := Observed(w, d, made)
	if !ok {
		r.config.Publisher.Settle(key(w.Namespace, w.Name))
		return false, nil
	}
	fact.Time = r.config.Now()
	ctx, cancel := context.WithTimeout(ctx, publish.PutTimeout)
	defer cancel()
	if _, err := r.config.Publisher.Put(ctx, fact); err != nil {
		return false, fmt.Errorf("state that the fork exists: %w", err)
	}
	return true, nil
}

// delete withdraws the routing, removes what was made and lets the object go.
func (r *Reconciler) delete(ctx context.Context, w *crdv1.ForkedWorkload) error {
	fact := member.Withdrawn(w)
	fact.Time = r.config.Now()
	putting, cancel := context.WithTimeout(ctx, publish.PutTimeout)
	defer cancel()
	if _, err := r.config.Publisher.Put(putting, fact); err != nil {
		return fmt.Errorf("state that the fork is gone: %w", err)
	}
	in, err := gather(ctx, r.config.Client, w)
	if err != nil {
		return err
	}
	gone, err := remove(ctx, r.writer, in)
	if err != nil || !gone {
		return err // The deletion of the last of them leads back here.
	}
	return r.writer.RemoveFinalizer(ctx, w)
}
