// Package drain empties a cluster of our objects before the operator goes. It is what
// helm uninstall runs first (controller-manager drain): the definitions of the custom
// resources go with the release, and an object with a finalizer of ours would wait for a
// manager that is gone, and its definition with it.
//
//	ask    delete what people have made: sandboxes, route groups, and members and
//	       RoutingConfigs that belong to none of them; the manager takes away what does
//	wait   until nothing of ours is left, at most Config.Wait
//	force  where that does not come to an end, because the manager is not there or
//	       cannot: delete all that is left, and take our finalizers off
//
// What is forced is logged object by object, with what has not happened: delete
// workflows have not run, and the routing log was told of nothing. What forks are made
// of is removed by the garbage collection of the cluster, since it belongs to the
// objects that go. Finalizers of others are left where they are. An object that nothing
// but those hold is waited for as the rest is, since its holder may be at work; then Run
// ends with an error that names both, so that helm does not go on as if it were gone.
//
// It needs the rights to list, delete and patch the kinds of Kinds, and no manager.
package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Kinds are those that may have finalizers of ours, or make something that is to be
// gone: what is left of any of them is waited for.
func Kinds() []string {
	return append([]string{crdv1.KindSandbox, crdv1.KindRouteGroup, crdv1.KindRoutingConfig, crdv1.KindResource}, crdv1.MemberKinds()...)
}

// How often is looked, how often is told what is waited for, and how many objects a
// message names.
const (
	pause    = 500 * time.Millisecond
	telling  = 10 * time.Second
	mostSaid = 5
)

// Config is what draining needs.
type Config struct {
	// Client reads and writes past every cache. Required.
	Client client.Client
	// Wait is how long the manager is given. Zero forces at once.
	Wait time.Duration
	// Force is how long what is left is given after that. Default 30 seconds.
	Force time.Duration
	// Logger tells what happens. Default slog.Default().
	Logger *slog.Logger
}

// Validate names what is wrong.
func (c Config) Validate() error {
	switch {
	case c.Client == nil:
		return errors.New("drain: Client is required")
	case c.Wait < 0 || c.Force < 0:
		return fmt.Errorf("drain: wait is %s and force is %s: neither can be negative", c.Wait, c.Force)
	}
	return nil
}

// Run drains the cluster. It ends within Wait and Force. The error names what is left.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Force == 0 {
		c.Force = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	d := &draining{Config: c, told: map[string]bool{}}
	left, err := d.until(ctx, c.Wait, d.ask)
	if done(ctx, left, err) {
		c.Logger.Info("nothing of the operator is left")
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	if err == nil && !slices.ContainsFunc(left, item.forceable) {
		return stuck(left)
	}
	c.Logger.Warn("the controller manager has not come to an end: what is left is deleted WITHOUT IT, and its finalizers are taken off. "+
		"Delete workflows of resources do not run. What forks are made of is left to the cluster's garbage collection",
		"waited", c.Wait, "left", say(left), "why", err)
	left, err = d.until(ctx, c.Force, d.force)
	if done(ctx, left, err) {
		c.Logger.Warn("nothing of the operator is left, but it was forced", "objects", len(d.told))
		return nil
	}
	return errors.Join(err, ctx.Err(), stuck(left))
}

// stuck is the error that says what is left, and what holds it.
func stuck(left []item) error {
	return fmt.Errorf("drain: these objects are left: %s. Let those end who hold them, or take their finalizers off, and uninstall again; "+
		"or uninstall with --no-hooks and leave them", say(left))
}

// done says whether it is known that nothing is left.
func done(ctx context.Context, left []item, err error) bool {
	return len(left) == 0 && err == nil && ctx.Err() == nil
}

// item is an object that is there.
type item struct {
	kind string
	*metav1.PartialObjectMetadata
}

// String names it for people.
func (i item) String() string {
	return strings.TrimSpace(i.kind + " " + strings.TrimPrefix(i.Namespace+"/"+i.Name, "/"))
}

// others gives the finalizers that are not ours.
func (i item) others() []string { return slices.DeleteFunc(slices.Clone(i.Finalizers), ours) }

// forceable says whether something can be done about an object besides waiting for those
// who hold it.
func (i item) forceable() bool {
	return i.DeletionTimestamp == nil || len(i.others()) < len(i.Finalizers) || len(i.Finalizers) == 0
}

// draining is one run.
type draining struct {
	Config
	// told are objects of which it was told that they are forced.
	told map[string]bool
}

// until looks what is there and does something about it, again and again, until nothing
// is there or the time is over, and gives what is left then. What fails is tried again;
// the error is the last one.
func (d *draining) until(ctx context.Context, within time.Duration, act func(context.Context, item) error) (left []item, err error) {
	began, told := time.Now(), time.Now()
	for {
		left, err = d.list(ctx)
		for _, i := range left {
			err = errors.Join(err, act(ctx, i))
		}
		if done(ctx, left, err) || ctx.Err() != nil || time.Since(began) >= within {
			return left, err
		}
		if time.Since(told) >= telling {
			told = time.Now()
			d.Logger.Info("waiting for the end of objects", "left", len(left), "objects", say(left), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(pause, within-time.Since(began))):
		}
	}
}

// list gives all that is there of Kinds. A kind that the API server does not serve has no
// objects.
func (d *draining) list(ctx context.Context) (out []item, err error) {
	for _, kind := range Kinds() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(crdv1.GroupVersion().WithKind(kind + "List"))
		one := d.Client.List(ctx, list)
		if meta.IsNoMatchError(one) || apierrors.IsNotFound(one) {
			continue
		}
		if one != nil {
			err = errors.Join(err, fmt.Errorf("list objects of kind %s: %w", kind, one))
		}
		for i := range list.Items {
			o := &list.Items[i]
			o.SetGroupVersionKind(crdv1.GroupVersion().WithKind(kind))
			out = append(out, item{kind, o})
		}
	}
	return out, err
}

// ask deletes an object that somebody has made; what belongs to another one of ours goes
// with it. What belongs to something else, such as the environment of a pull request,
// goes here too: that stays.
func (d *draining) ask(ctx context.Context, i item) error {
	if ref := metav1.GetControllerOfNoCopy(i); ref != nil && ref.APIVersion == crdv1.APIVersion {
		return nil
	}
	return d.delete(ctx, i)
}

// force deletes an object, whoever it belongs to, and takes our finalizers off.
func (d *draining) force(ctx context.Context, i item) error {
	if err := d.delete(ctx, i); err != nil {
		return err
	}
	theirs := i.others()
	if len(theirs) < len(i.Finalizers) {
		before := i.PartialObjectMetadata.DeepCopy()
		i.Finalizers = theirs
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err := d.Client.Patch(ctx, i.PartialObjectMetadata, patch, client.FieldOwner(crdv1.FieldManager))
		if apierrors.IsConflict(err) {
			return nil // What has changed meanwhile is seen in the next round.
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take our finalizers off %s: %w", i, err)
		}
	}
	d.tell(i, theirs)
	return nil
}

// tell says once what was done to an object, and who holds it all the same.
func (d *draining) tell(i item, theirs []string) {
	if d.told[i.String()] {
		return
	}
	d.told[i.String()] = true
	if len(theirs) > 0 {
		d.Logger.Warn("asked to go without the controller manager, and held by finalizers of others", "object", i.String(), "finalizers", theirs)
		return
	}
	d.Logger.Warn("taken away without the controller manager", "object", i.String())
}

// ours says whether a finalizer is of this operator: of any part and version of it.
func ours(finalizer string) bool { return strings.HasPrefix(finalizer, crdv1.Group+"/") }

// delete asks for the deletion of this very object, unless it is being deleted.
func (d *draining) delete(ctx context.Context, i item) error {
	if i.DeletionTimestamp != nil {
		return nil
	}
	uid := i.UID
	err := d.Client.Delete(ctx, i.PartialObjectMetadata,
		client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", i, err)
	}
	return nil
}

// say names the first of many objects, and the finalizers that hold them.
func say(all []item) string {
	var out []string
	for _, i := range all[:min(len(all), mostSaid)] {
		name := i.String()
		if len(i.Finalizers) > 0 {
			name += " (held by finalizer " + strings.Join(i.Finalizers, " and ") + ")"
		}
		out = append(out, name)
	}
	if more := len(all) - mostSaid; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}
