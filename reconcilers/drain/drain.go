// Package drain takes away what the operator has made before it goes. It is what helm
// uninstall runs first (controller-manager drain).
//
// With Config.Keep what people have made stays: sandboxes, route groups, and members,
// RoutingConfigs and Resources that belong to none of them.
//
//	ask    put them to rest (package atrest): the manager takes away what it made for them,
//	       as if they were being deleted, and its finalizers off them
//	wait   until nothing but them is left, at most Config.Wait
//	force  where that does not come to an end, because the manager is not there or
//	       cannot: delete all that was made for them, and take our finalizers off
//	tell   write into their status that the operator is gone
//
// When it ends without that it rouses them again, and the manager brings everything back.
//
// Without Config.Keep they go too, since the definitions of the custom resources go with
// the release: an object with a finalizer of ours would wait for a manager that is gone,
// and its definition with it. Asking is deleting then. What forks are made of is removed
// by the garbage collection of the cluster, since it belongs to the objects that go.
//
// Workflows that remove resources are waited for beyond Wait, as long as they get on.
//
// What is forced is logged object by object, with what has not happened: of Resources what
// they may leave behind, and the routing log was told of nothing. Finalizers of others
// are left where they are. What is to go and nothing but those hold is waited for as the rest
// is, since its holder may be at work; then Run ends with an error that names both, so
// that helm does not go on as if it were gone.
//
// IstioRoutes and GatewayAPIRoutes that no other object of ours has made are left as they are, and
// named: nothing acts on them. Routes of ours in VirtualServices are taken out in the end
// (routes.go) where the right to is given, as while istio.enabled is true; else it is told where
// they may stay. Derived DestinationRules are deleted after that, and derived routes of the Gateway
// API before (derived.go), by garbage collection if that right is missing.
//
// It needs the rights to list, delete and patch the kinds of Kinds and to patch their
// status, to list and delete what members are made of, and to get the ConfigMap of
// publish.Installation; and no manager.
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// Kinds are those that may have finalizers of ours, or make something that is to be
// gone: what is left of any of them is waited for.
func Kinds() []string {
	return crdv1.Names(slices.DeleteFunc(crdv1.Kinds(), func(k crdv1.Kind) bool { return !k.Supported && !k.Made }))
}

// How often is looked, how often is told what is waited for, and how many objects a
// message names.
const (
	pause    = 500 * time.Millisecond
	telling  = 10 * time.Second
	mostSaid = 5
)

// home is the namespace of the operator.
const home = "signadot"

// Config is what draining needs.
type Config struct {
	// Client reads and writes past every cache. Required.
	Client client.Client
	// Wait is how long the manager is given. Zero forces at once.
	Wait time.Duration
	// Workflows is for how much longer workflows that remove resources are waited for, as long
	// as none of their units has failed.
	Workflows time.Duration
	// Force is how long what is left is given after that. Default 30 seconds.
	Force time.Duration
	// Keep leaves what people have made where it is. Client has to know our kinds then.
	Keep bool
	// Namespace is where the operator lives; "signadot" when it is empty.
	Namespace string
	// Namespaces are those in which members are; empty means all.
	Namespaces []string
	// Logger tells what happens. Default slog.Default().
	Logger *slog.Logger
}

// Validate names what is wrong.
func (c Config) Validate() error {
	switch {
	case c.Client == nil:
		return errors.New("drain: Client is required")
	case c.Wait < 0 || c.Force < 0 || c.Workflows < 0:
		return fmt.Errorf("drain: wait is %s, force is %s and workflows is %s: none can be negative", c.Wait, c.Force, c.Workflows)
	}
	return nil
}

// Run drains the cluster. It ends within Wait, Workflows and Force, and one more Force for each kind of object of a mesh. The error names the remaining objects.
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
	if c.Namespace == "" {
		c.Namespace = home
	}
	d := &draining{Config: c, told: map[string]bool{}, began: time.Now()}
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
		c.Logger.Info("these stay", "objects", say(stay))
	}
	if forced {
		c.Logger.Warn("nothing of the operator is left; finalizers had to be removed by force", "objects", len(d.told))
	} else {
		c.Logger.Info("nothing of the operator is left")
	}
	return nil
}

// end asks until nothing is left of what look finds, and forces it after Wait. The error
// names what is left in the end.
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
	d.Logger.Warn("the controller manager has not come to an end: what is to go is deleted WITHOUT IT, and its finalizers are taken off. "+
		"Delete workflows of resources do not run, and sidecars keep the last routes until their pods are made anew",
		"waited", d.Wait, "left", say(left), "why", err)
	d.forcing = true
	left, err = d.until(ctx, d.Force, look, d.force)
	if done(ctx, left, err) {
		return true, nil
	}
	return true, errors.Join(err, ctx.Err(), stuck(left))
}

// stuck is the error that says what is left, and what holds it.
func stuck(left []item) error {
	return fmt.Errorf("drain: these objects are left: %s. Let those end who hold them, or take their finalizers off, and uninstall again; "+
		"or uninstall with --no-hooks and leave them", say(left))
}

// done reports whether it is known that nothing is left.
func done(ctx context.Context, left []item, err error) bool {
	return len(left) == 0 && err == nil && ctx.Err() == nil
}

// draining is one run.
type draining struct {
	Config
	// told are objects of which it was told that they are forced.
	told map[string]bool
	// mark puts objects to rest; empty where none is to be.
	mark string
	// forcing: nobody is waited for any more.
	forcing bool
	// began is when the manager was asked.
	began time.Time
	// strangers are the IstioRoutes and GatewayAPIRoutes that no other object of ours has made: they are not touched.
	strangers []item
	// marked are the VirtualServices of which IstioRoutes say that they may have routes of ours.
	marked []item
}

// lookup finds what is not yet as it is to be in the end, and action does something about
// one such object.
type (
	lookup func(context.Context) ([]item, error)
	action func(context.Context, item) error
)

// until looks what is left and does something about it, again and again, until nothing
// is or the time is over, and returns what is left then. What fails is tried again;
// the error is the last one.
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
			d.Logger.Info("waiting for the end of objects", "left", len(left), "objects", say(left), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pausing):
		}
	}
}

// ask deletes an object that somebody has made; what belongs to another one of ours goes
// with it. What belongs to something else, such as the environment of a pull request,
// goes here too: that stays.
func (d *draining) ask(ctx context.Context, i item) error {
	if i.ofOurs() {
		return nil
	}
	return d.writer().Delete(ctx, i.PartialObjectMetadata)
}

// force deletes an object that is not to stay, whoever it belongs to, and takes our
// finalizers off.
func (d *draining) force(ctx context.Context, i item) error {
	if !d.stays(i) {
		if err := d.writer().Delete(ctx, i.PartialObjectMetadata); err != nil {
			return err
		}
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
	d.tell(ctx, i, theirs)
	return nil
}

// tell says once what was done to an object, and who holds it all the same.
func (d *draining) tell(ctx context.Context, i item, theirs []string) {
	if d.told[i.String()] {
		return
	}
	d.told[i.String()] = true
	if left := d.remains(ctx, i); left != "" {
		d.Logger.Warn("its delete workflow has not run to its end, so this may be left behind", "object", i.String(), "left", left)
	}
	if len(theirs) > 0 {
		d.Logger.Warn("asked to go without the controller manager, and held by finalizers of others", "object", i.String(), "finalizers", theirs)
		return
	}
	if d.stays(i) {
		d.Logger.Warn("our finalizers were taken off without the controller manager", "object", i.String())
		return
	}
	d.Logger.Warn("taken away without the controller manager", "object", i.String())
}

// ours reports whether a finalizer is of this operator: of any part and version of it.
func ours(finalizer string) bool { return strings.HasPrefix(finalizer, crdv1.Group+"/") }

// writer writes past every cache.
func (d *draining) writer() apply.Writer { return apply.Writer{Client: d.Client} }
