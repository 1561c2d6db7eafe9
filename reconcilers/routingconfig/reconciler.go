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
	"switchyard.dev/reconcilers/routingkey"
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

// delete withdraws the object's declaration, or hands it over, and removes the finalizer. It returns
// the time until the next sync of an object that waits for meshes.
func (r *Reconciler) delete(ctx context.Context, in Input) (time.Duration, error) {
	if err := r.overtaken(ctx, in.Config); err != nil {
		return 0, err
	}
	if err := r.giveUp(ctx, in); err != nil {
		return 0, err
	}
	r.settle(in)
	if in.holds() {
		if err := r.leave(ctx, in); err != nil {
			return 0, err
		}
	}
	if after, err := r.endMeshes(ctx, in); err != nil || after > 0 {
		return after, err
	}
	return 0, r.writer.RemoveFinalizer(ctx, in.Config)
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

// Input is the input of Decide for one RoutingConfig. It must not be modified.
type Input struct {
	// Routing is the RoutingConfig with its members.
	routing.Routing
	// SameKey are all RoutingConfigs with its key, itself among them or not.
	SameKey []crdv1.RoutingConfig
	// FormerKey are all RoutingConfigs with the key that it declared before, when
	// that is another one.
	FormerKey []crdv1.RoutingConfig
	// MeshRoutes are the mesh routes that this RoutingConfig owns, by kind.
	MeshRoutes map[string][]crdv1.MeshRoute
	// meshErrs are the errors of writing mesh routes, by kind.
	meshErrs map[string]error
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
}

// mayRead reports whether the operator may work in a namespace. The cache has no objects of others.
func (in Input) mayRead(namespace string) bool {
	return len(in.Namespaces) == 0 || slices.Contains(in.Namespaces, namespace)
}

// holder returns the RoutingConfig that has the key: the one that declares it, however old the others
// are; if none does, the oldest, then the first by name. One that declares the key and is being deleted
// holds it until it is removed or has handed it over.
func (in Input) holder() *crdv1.RoutingConfig {
	candidates := []*crdv1.RoutingConfig{in.Config}
	for i := range in.SameKey {
		if in.SameKey[i].UID != in.Config.UID {
			candidates = append(candidates, &in.SameKey[i])
		}
	}
	return routing.Holder(candidates...)
}

// successor returns the RoutingConfig that gets the key after this one is deleted; nil if there is
// none, or all are being deleted.
func (in Input) successor() *crdv1.RoutingConfig {
	var out *crdv1.RoutingConfig
	for i := range in.SameKey {
		c := &in.SameKey[i]
		if c.UID != in.Config.UID && c.DeletionTimestamp == nil && (out == nil || routing.Holder(c, out) == c) {
			out = c
		}
	}
	return out
}

// holds reports whether the key is this object's, and one that requests can carry.
func (in Input) holds() bool { return in.carried() && in.holder().UID == in.Config.UID }

// carried reports whether requests can carry the key. Nothing declares one that they cannot.
func (in Input) carried() bool { return routingkey.Problem(in.Config.RoutingKey()) == "" }

// formerKey returns the key that was declared before and is given up now, and the other objects that
// may declare it; empty if there is no such key. A key that requests cannot carry has no other objects.
func (in Input) formerKey() (string, []crdv1.RoutingConfig) {
	former := in.Config.Annotations[routing.AnnotationDeclaredKey]
	if former == "" || former == in.Config.RoutingKey() && in.carried() {
		return "", nil
	}
	if routingkey.Problem(former) != "" {
		return former, nil
	}
	itself := func(c crdv1.RoutingConfig) bool { return c.UID == in.Config.UID }
	return former, slices.DeleteFunc(slices.Clone(in.FormerKey), itself)
}

// Declared returns the fact that declares the routing key and members of the RoutingConfig.
func Declared(c *crdv1.RoutingConfig, d *factv1.RoutingDeclared) event.Fact {
	return event.Fact{
		Key:   event.RoutingKey(d.GetRoutingKey()),
		Cause: publish.CauseOf(crdv1.KindRoutingConfig, c),
		Data:  d,
	}
}

// Withdrawn returns the fact that the RoutingConfig does not declare the key.
func Withdrawn(c *crdv1.RoutingConfig, key string) event.Fact {
	return event.Fact{
		Key:   event.RoutingKey(key),
		Cause: publish.MakerOf(crdv1.KindRoutingConfig, c),
		Data:  &factv1.RoutingWithdrawn{RoutingKey: key},
	}
}
