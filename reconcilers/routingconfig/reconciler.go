package routingconfig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/reconcilers/routing"
)

// Config has the dependencies and settings of a Reconciler. Namespaces and Receipts may be empty.
type Config struct {
	apply.Access
	// Publisher puts facts on the routing log. Required.
	Publisher publish.Publisher
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
	// Receipts queries the acknowledgements of a declaration. If it is nil, nothing waits for them.
	Receipts Receipts
	// KeyHeaders is the fact with the custom headers that carry routing keys. It is on the log before
	// any declaration, and proxies acknowledge it with the rules of each key. The zero Fact: the
	// headers are unknown here, and not declared.
	KeyHeaders event.Fact
	// Meshes are those that are on, by the kind of their mesh routes. There is one mesh route for each
	// baseline Service of a member.
	Meshes map[string]Mesh
}

// Receipts queries acknowledgements. *receipt.Receipts implements it.
type Receipts interface {
	// Look returns the known answer to the query of the RoutingConfig of this name, and starts or
	// continues the query; each new answer triggers a sync of the RoutingConfig. It may block for a
	// moment.
	Look(ctx context.Context, name string, ask receipt.Ask) receipt.Answer
	// Forget stops the query of this name.
	Forget(name string)
}

// Reconciler keeps the declarations of RoutingConfigs on the log. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	// declared has the key that each RoutingConfig, by name, has declared last.
	declared sync.Map
}

// New returns a Reconciler.
func New(c Config) *Reconciler { return &Reconciler{config: c, writer: c.Writer()} }

// Reconcile reconciles one RoutingConfig.
//
// +kubebuilder:rbac:groups=signadot.com,resources=routingconfigs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=routingconfigs/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, c *crdv1.RoutingConfig) (time.Duration, error) {
	in, err := r.gather(ctx, c)
	if err != nil {
		return 0, err
	}
	if c.DeletionTimestamp != nil {
		r.forget(c.Name)
		return r.delete(ctx, in)
	}
	d := Decide(in)
	p := r.publish(ctx, in, d)
	if apierrors.IsConflict(p.Err) { // The cache is stale: no status.
		return 0, p.Err
	}
	acknowledged, err := r.receipt(ctx, in, d, p)
	if err != nil {
		return 0, errors.Join(p.Err, err)
	}
	if err := r.orphanedMeshes(ctx, c.Name, c.UID); err != nil {
		return 0, errors.Join(p.Err, err)
	}
	in.meshErrs = r.askMeshes(ctx, in, d)
	after := Conclude(in, d, p, acknowledged, metav1.NewTime(r.config.Now()))
	err = errors.Join(errors.Join(slices.Collect(maps.Values(in.meshErrs))...), r.writer.Status(ctx, c, after))
	if !p.Refused {
		err = errors.Join(p.Err, err)
	}
	return 0, err
}

// publish puts the declaration on the log, after recording on the object that it will be there.
func (r *Reconciler) publish(ctx context.Context, in Input, d Decision) Published {
	if err := r.giveUp(ctx, in); err != nil {
		return Published{Err: err}
	}
	r.settle(in)
	if d.Declaration == nil {
		return Published{Err: r.clearNote(ctx, in)}
	}
	if err := r.confirmUnclaimed(ctx, in); err != nil {
		return Published{Err: err}
	}
	note := map[string]string{routing.AnnotationDeclaredKey: in.Config.RoutingKey()}
	if members := in.Note(); members != in.Config.Annotations[routing.AnnotationMembers] {
		note[routing.AnnotationMembers] = members
	}
	if err := r.writer.AddFinalizer(ctx, in.Config, note); err != nil {
		return Published{Err: err}
	}
	r.declared.Store(in.Config.Name, in.Config.RoutingKey())
	pos, err := r.declare(ctx, in.Config, d.Declaration)
	return Published{Pos: pos, Err: err, Refused: publish.Refused(err)}
}

// declare puts the declaration of a RoutingConfig on the log, and before it the headers that carry
// routing keys: no sidecar may have the one without the other.
func (r *Reconciler) declare(ctx context.Context, c *crdv1.RoutingConfig, d *factv1.RoutingDeclared) (event.Pos, error) {
	if r.config.KeyHeaders.Data != nil {
		if pos, err := r.put(ctx, r.config.KeyHeaders); err != nil {
			return pos, err
		}
	}
	return r.put(ctx, Declared(c, d))
}

// settle settles a key that requests cannot carry: it is never declared, so the log must not wait for
// it. Every other key has a holder that puts its fact on the log, and only that may settle it:
// otherwise the log would count as complete without that fact.
func (r *Reconciler) settle(in Input) {
	if !in.carried() {
		r.config.Publisher.Settle(event.RoutingKey(in.Config.RoutingKey()))
	}
}

// put puts one fact on the log, for at most publish.PutTimeout.
func (r *Reconciler) put(ctx context.Context, f event.Fact) (event.Pos, error) {
	f.Time = r.config.Now()
	ctx, cancel := context.WithTimeout(ctx, publish.PutTimeout)
	defer cancel()
	pos, err := r.config.Publisher.Put(ctx, f)
	if err != nil {
		return pos, fmt.Errorf("put %s on the routing log: %w", f.Key, err)
	}
	return pos, nil
}

// gather reads all that counts for a RoutingConfig from the cache.
func (r *Reconciler) gather(ctx context.Context, config *crdv1.RoutingConfig) (Input, error) {
	c := r.config.Client
	in := Input{Routing: routing.Of(config, nil, publish.HeadersOf(r.config.KeyHeaders)), Namespaces: r.config.Namespaces}
	var err error
	if in.SameKey, err = member.ConfigsBy(ctx, c, indexKey, config.RoutingKey()); err != nil {
		return in, err
	}
	if former := config.Annotations[routing.AnnotationDeclaredKey]; former != "" && former != config.RoutingKey() {
		if in.FormerKey, err = member.ConfigsBy(ctx, c, indexKey, former); err != nil {
			return in, err
		}
	}
	for _, m := range in.Named() {
		if !in.mayRead(m.Namespace) {
			continue
		}
		found, err := member.Get(ctx, c, m.Kind, m.Namespace, m.Name)
		if err != nil {
			return in, err
		}
		if found != nil {
			in.Members[member.NameOf(found)] = found
		}
	}
	if in.Specified, err = specified(ctx, c, in); err != nil {
		return in, err
	}
	in.MeshRoutes, in.Mesh, err = r.meshRoutes(ctx, config)
	return in, err
}
