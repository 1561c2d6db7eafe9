// Package drain removes the operator's objects before the operator is uninstalled. helm uninstall runs
// it first (controller-manager drain).
//
// With Config.Keep the users' objects stay: sandboxes, route groups, and members, RoutingConfigs and
// Resources that have no owner among these.
//
//	ask    put them to rest (package atrest): the manager deletes the objects it created for
//	       them, as if they were being deleted, and removes its finalizers
//	wait   until only they are left, at most Config.Wait
//	force  if that does not complete, because the manager is missing or fails: delete the
//	       objects created for them, and remove the operator's finalizers
//	tell   write into their status that the operator was uninstalled
//
// If it fails it removes the mark of rest again, and the manager re-creates everything.
//
// Without Config.Keep they are deleted too, since the custom resource definitions are removed with the
// release: an object with a finalizer of the operator would wait for a missing manager, and block the
// deletion of its definition. Asking then means deleting. The cluster's garbage collector deletes the
// objects of forks, since they are owned by the deleted objects.
//
// Workflows that remove resources are waited for beyond Wait, as long as they make progress.
//
// Each forced object is logged with the skipped steps: for Resources the leftovers, and that the
// routing log received no fact. Finalizers of others are left in place. Objects that only those block
// are waited for like the rest, since their owner may be at work; then Run returns an error that names
// both, so that helm does not continue.
//
// IstioRoutes and GatewayAPIRoutes without an owner among the operator's objects are left as they are
// and logged: nothing acts on them. The operator's routes in VirtualServices are removed last
// (routes.go) if it has the right, as while istio.enabled is true; otherwise the possible leftovers are
// logged. Derived DestinationRules are deleted after that, and derived routes of the Gateway API before
// (derived.go), by garbage collection if that right is missing.
//
// It needs the rights to list, delete and patch the kinds of Kinds and to patch their status, to list
// and delete the objects of members, and to get the ConfigMap of publish.Installation; it does not need
// a manager.
package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// Kinds returns the kinds that may have finalizers of the operator, or create objects to be deleted:
// draining waits for all of their objects.
func Kinds() []string {
	return crdv1.Names(slices.DeleteFunc(crdv1.Kinds(), func(k crdv1.Kind) bool { return !k.Supported && !k.Made }))
}

// The polling interval, the interval of progress logs, and the number of objects in a message.
const (
	pause    = 500 * time.Millisecond
	telling  = 10 * time.Second
	mostSaid = 5
)

// home is the namespace of the operator.
const home = "signadot"

// Config has the dependencies and settings of draining.
type Config struct {
	// Client reads from and writes to the API server without a cache. Required.
	Client client.Client
	// Wait is how long the manager is given. Zero forces at once.
	Wait time.Duration
	// Workflows is for how much longer workflows that remove resources are waited for, as long
	// as none of their units has failed.
	Workflows time.Duration
	// Force is the time limit for forced removal after that. Default 30 seconds.
	Force time.Duration
	// Keep leaves the users' objects. The scheme of Client must then include the operator's kinds.
	Keep bool
	// Namespace is where the operator lives; "signadot" when it is empty.
	Namespace string
	// Namespaces are those in which members are; empty means all.
	Namespaces []string
	// Logger logs the progress. Default slog.Default().
	Logger *slog.Logger
}

// Validate returns an error if a field is invalid.
func (c Config) Validate() error {
	switch {
	case c.Client == nil:
		return errors.New("drain: Client is required")
	case c.Wait < 0 || c.Force < 0 || c.Workflows < 0:
		return fmt.Errorf("drain: wait is %s, force is %s and workflows is %s: none can be negative", c.Wait, c.Force, c.Workflows)
	}
	return nil
}

// Run drains the cluster. It ends within Wait, Workflows and Force, and one more Force for each kind of
// object of a mesh. The error names the remaining objects.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c.Force = cmp.Or(c.Force, 30*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Namespace = cmp.Or(c.Namespace, home)
	d := &draining{Config: c, logged: map[string]bool{}, began: time.Now()}
	if c.Keep {
		return d.keep(ctx)
	}
	forced, err := d.end(ctx, d.list, d.ask)
	if err != nil {
		return err
	}
	routed, err := d.endMeshes(ctx)
	if err != nil {
		return err
	}
	if stay := append(d.strangers, routed...); len(stay) > 0 {
		c.Logger.Info("these stay", "objects", named(stay))
	}
	if forced {
		c.Logger.Warn("nothing of the operator is left; finalizers had to be removed by force", "objects", len(d.logged))
	} else {
		c.Logger.Info("nothing of the operator is left")
	}
	return nil
}

// end calls ask until look finds nothing, and forces removal after Wait. The error names the remaining
// objects.
func (d *draining) end(ctx context.Context, look lookup, ask action) (forced bool, err error) {
	left, err := d.until(ctx, d.Wait, look, ask)
	if done(ctx, left, err) {
		return false, nil
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("drain: %w", err)
	}
	if err == nil && !slices.ContainsFunc(left, item.forceable) {
		return false, stuck(left)
	}
	d.Logger.Warn("the controller manager did not finish in time: the remaining objects are deleted WITHOUT IT, and its finalizers are removed. "+
		"Delete workflows of resources do not run, and sidecars keep the last routes until their pods are re-created",
		"waited", d.Wait, "left", named(left), "why", err)
	d.forcing = true
	left, err = d.until(ctx, d.Force, look, d.force)
	if done(ctx, left, err) {
		return true, nil
	}
	return true, errors.Join(err, ctx.Err(), stuck(left))
}

// stuck returns the error that names the remaining objects and their finalizers.
func stuck(left []item) error {
	return fmt.Errorf("drain: these objects are left: %s. Let those end who hold them, or take their finalizers off, and uninstall again; "+
		"or uninstall with --no-hooks and leave them", named(left))
}

// done reports whether it is known that nothing is left.
func done(ctx context.Context, left []item, err error) bool {
	return len(left) == 0 && err == nil && ctx.Err() == nil
}

// draining is one run.
type draining struct {
	Config
	// logged are the forced objects that were logged.
	logged map[string]bool
	// mark is the Mark for objects at rest; empty if none are put to rest.
	mark string
	// forcing: the manager and workflows are no longer waited for.
	forcing bool
	// began is when the manager was asked.
	began time.Time
	// strangers are the IstioRoutes and GatewayAPIRoutes without an owner among the operator's objects:
	// they are not touched.
	strangers []item
	// marked are the VirtualServices that may have the operator's routes, by the status of IstioRoutes.
	marked []item
}

// lookup returns the objects that are not in their final state, and action acts on one of them.
type (
	lookup func(context.Context) ([]item, error)
	action func(context.Context, item) error
)

// until calls look and applies act to each object, repeatedly, until nothing is left or the time is
// over, and returns the remaining objects. Failures are retried; the error is the last one.
func (d *draining) until(ctx context.Context, within time.Duration, look lookup, act action) (left []item, err error) {
	began, told := time.Now(), time.Now()
	for {
		left, err = look(ctx)
		for _, i := range left {
			err = errors.Join(err, act(ctx, i))
		}
		if done(ctx, left, err) || ctx.Err() != nil {
			return left, err
		}
		pausing := min(pause, within-time.Since(began))
		if pausing <= 0 {
			if d.forcing || time.Since(began) >= within+d.Workflows || !d.working(ctx) {
				return left, err
			}
			pausing = pause
		}
		if time.Since(told) >= telling {
			told = time.Now()
			d.Logger.Info("waiting for the end of objects", "left", len(left), "objects", named(left), "error", err)
		}
		wake.Sleep(ctx, pausing)
	}
}

// ask deletes an object unless another of the operator's objects owns it, with which it is deleted. It
// does delete an object with another owner, such as the environment of a pull request; the owner stays.
func (d *draining) ask(ctx context.Context, i item) error {
	if i.ofOurs() {
		return nil
	}
	return d.writer().Delete(ctx, i.PartialObjectMetadata)
}

// force deletes an object that is not to stay, whatever its owner, and removes the operator's
// finalizers.
func (d *draining) force(ctx context.Context, i item) error {
	if !d.stays(i) {
		if err := d.writer().Delete(ctx, i.PartialObjectMetadata); err != nil {
			return err
		}
	}
	others := i.others()
	if len(others) < len(i.Finalizers) {
		before := i.PartialObjectMetadata.DeepCopy()
		i.Finalizers = others
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err := d.Client.Patch(ctx, i.PartialObjectMetadata, patch, client.FieldOwner(crdv1.FieldManager))
		if apierrors.IsConflict(err) {
			return nil // Retried in the next round.
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the finalizers of the operator from %s: %w", i, err)
		}
	}
	d.logForced(ctx, i, others)
	return nil
}

// logForced logs once the action on an object, and its remaining finalizers of other owners.
func (d *draining) logForced(ctx context.Context, i item, others []string) {
	if d.logged[i.String()] {
		return
	}
	d.logged[i.String()] = true
	if left := d.remains(ctx, i); left != "" {
		d.Logger.Warn("its delete workflow did not complete, so these objects may remain", "object", i.String(), "left", left)
	}
	if len(others) > 0 {
		d.Logger.Warn("deletion requested without the controller manager; finalizers of other software remain", "object", i.String(), "finalizers", others)
		return
	}
	if d.stays(i) {
		d.Logger.Warn("the operator's finalizers were removed without the controller manager", "object", i.String())
		return
	}
	d.Logger.Warn("deleted without the controller manager", "object", i.String())
}

// ofOperator reports whether a finalizer belongs to this operator, in any version.
func ofOperator(finalizer string) bool { return strings.HasPrefix(finalizer, crdv1.Group+"/") }

// writer returns a Writer without a cache.
func (d *draining) writer() apply.Writer { return apply.Writer{Client: d.Client} }
