package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tools/wait"
)

// Restore replaces the store of a control plane by an older backup, and writes and deletes sandboxes and runner groups of it.
type Restore struct {
	// Each is how many sandboxes there are of each sort: changed, deleted and created since the backup, and written,
	// deleted and expired in the restored store before its first session. As many runner groups are changed.
	Each int
	// Scratch is a directory to work in; Log takes what the processes log.
	Scratch string
	Log     io.Writer
}

// Restored are the results.
type Restored struct {
	// Objects counts those of the cluster; Listed those that the dry run of an adoption names.
	Objects, Listed int
	// Deleted and Overwritten are those that were deleted and written after the restore, and Again those that were deleted
	// before and created after it.
	Deleted, Overwritten, Again []string
}

// restoring is a Restore that runs.
type restoring struct {
	Restore
	*ground
	store   *store.Store
	replica *deliveries.Replica
	stop    func() error
	n       int
}

// Do runs it.
func (r Restore) Do(ctx context.Context) (out Restored, err error) {
	d := &restoring{Restore: r}
	if d.ground, err = newGround(ctx, r.Scratch, r.Log); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	if d.store, err = deliveries.Open(ctx, filepath.Join(d.dir, "store.db"), ""); err != nil {
		return out, err
	}
	if err := errors.Join(deliveries.Fill(ctx, d.store, cluster), d.start(ctx)); err != nil {
		return out, err
	}
	backup := filepath.Join(d.dir, "backup.db")
	if err := d.age(ctx, backup); err != nil {
		return out, err
	}
	before, err := d.objects(ctx)
	if err != nil {
		return out, err
	}
	if d.store, err = deliveries.Open(ctx, backup, ""); err != nil {
		return out, err
	}
	if err := errors.Join(d.early(ctx), d.start(ctx)); err != nil {
		return out, err
	}
	err = d.write(ctx)
	after, unread := d.objects(ctx)
	would, unlisted := d.replica.Delivery.Adopt(ctx, deliveries.Organisation, cluster, true)
	out.Listed = len(would.Taken) + len(would.Left)
	if err := errors.Join(err, unread, unlisted, d.stop()); err != nil {
		return out, err
	}
	out.Objects = len(before)
	for name, version := range before {
		switch after[name] {
		case version:
		case "":
			out.Deleted = append(out.Deleted, name)
		default:
			out.Overwritten = append(out.Overwritten, name)
		}
		delete(after, name)
	}
	for name := range after {
		out.Again = append(out.Again, name)
	}
	return out, nil
}

// start starts a replica; stop ends it and closes the store.
func (d *restoring) start(ctx context.Context) error {
	r, err := deliveries.NewReplica(d.dir, d.store, slog.New(slog.NewTextHandler(d.Log, nil)))
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	d.replica = r
	d.stop = func() error {
		d.front.Set()
		cancel()
		return errors.Join(<-ended, d.store.Close())
	}
	d.front.Set(r.Address)
	return nil
}

// age makes a backup, after which sandboxes are changed, deleted and created.
func (d *restoring) age(ctx context.Context, backup string) error {
	err := errors.Join(d.put(ctx, "changed"), d.put(ctx, "deleted"), d.put(ctx, "put"), d.put(ctx, "dropped"), d.put(ctx, ended), d.group(ctx), d.applied(ctx))
	if err == nil {
		err = d.store.Backup(ctx, backup)
	}
	for range 3 {
		if err == nil {
			err = errors.Join(d.put(ctx, "changed"), d.put(ctx, "put"), d.put(ctx, "dropped"), d.put(ctx, ended), d.group(ctx), d.applied(ctx))
		}
	}
	return errors.Join(err, d.drop(ctx, "deleted"), d.put(ctx, "created"), d.applied(ctx), d.stop())
}

// ended are sandboxes with a lifetime.
const ended = "ended"

// early writes the restored store before its first session: generations pass those of the objects.
func (d *restoring) early(ctx context.Context) error {
	for range 20 {
		if err := errors.Join(d.put(ctx, "put"), d.group(ctx)); err != nil {
			return err
		}
	}
	expire := func(store.Kind, string) model.Event { return d.event() }
	return errors.Join(d.drop(ctx, "dropped"), d.store.EndLifetimes(ctx, deliveries.Organisation, time.Now().Add(2*time.Hour), expire))
}

// write writes and deletes sandboxes of the restored store, and waits until each row has a status of that.
func (d *restoring) write(ctx context.Context) error {
	reported := func(sort, reason string) error {
		return d.each(ctx, sort, func(row model.Sandbox) bool { return row.Status.Reason == reason })
	}
	var errs []error
	for _, sort := range []string{"changed", "put", "dropped", ended} {
		errs = append(errs, reported(sort, observed.ReasonNewer))
	}
	if err := errors.Join(append(errs, reported("deleted", observed.ReasonDeleted))...); err != nil {
		return err
	}
	for range 5 { // generations pass those of the objects
		if err := d.put(ctx, "changed"); err != nil {
			return err
		}
	}
	known := func(row model.Sandbox) bool {
		return row.Status.Reason == observed.ReasonNewer && row.Status.Generation == row.Generation
	}
	if err := d.each(ctx, "changed", known); err != nil {
		return err
	}
	return errors.Join(d.drop(ctx, "changed"), d.each(ctx, "changed", known), wait.Until(ctx, patience, "the runner groups are reported", func() error {
		return d.groups(ctx, func(g model.RunnerGroup) bool { return strings.Contains(g.Status.Message, "adopt") })
	}))
}

// group writes the runner groups. They scale automatically, so that deliveries write them at any time.
func (d *restoring) group(ctx context.Context) (err error) {
	for i := 0; i < d.Each && err == nil; i++ {
		ev := d.event()
		_, err = jobstore.Store{Store: d.store}.PutGroup(ctx, model.RunnerGroup{
			Org: deliveries.Organisation, Name: "group" + strconv.Itoa(i), Cluster: cluster, Namespace: "default", Author: author, CreatedAt: ev.At, UpdatedAt: ev.At,
			Spec: fmt.Appendf(nil, `{"cluster":%q,"namespace":"default","image":"runner:%d","scaling":{"auto":{"minPods":%d,"maxPods":9}}}`, cluster, d.n, d.n%5),
		}, ev)
	}
	return err
}

// groups fails unless a check accepts each runner group.
func (d *restoring) groups(ctx context.Context, check func(model.RunnerGroup) bool) error {
	all, err := jobstore.Store{Store: d.store}.Groups(ctx, deliveries.Organisation)
	for _, g := range all {
		if !check(g) {
			err = errors.Join(err, fmt.Errorf("runner group %s is %+v of generation %d", g.Name, g.Status, g.Generation))
		}
	}
	return err
}

func (d *restoring) event() model.Event {
	d.n++
	return model.Event{Org: deliveries.Organisation, ID: fmt.Sprintf("restore-%d-%x", d.n, time.Now().UnixNano()), Type: "write", At: time.Now(), By: author.Principal, Role: author.Role}
}

// put writes the sandboxes of a sort.
func (d *restoring) put(ctx context.Context, sort string) (err error) {
	for i := 0; i < d.Each && err == nil; i++ {
		ev := d.event()
		row := sandboxRow(sort+strconv.Itoa(i), ev.ID)
		if sort == ended {
			row.Spec = append(row.Spec[:len(row.Spec)-1], `,"ttl":{"duration":"1h","offsetFrom":"createdAt"}}`...)
		}
		_, err = d.store.PutSandbox(ctx, row, ev)
	}
	return err
}

// drop deletes the sandboxes of a sort.
func (d *restoring) drop(ctx context.Context, sort string) (err error) {
	for i := 0; i < d.Each && err == nil; i++ {
		err = d.store.DeleteSandbox(ctx, deliveries.Organisation, sort+strconv.Itoa(i), false, time.Now(), d.event())
	}
	return err
}

// each waits until a check accepts each row of a sort.
func (d *restoring) each(ctx context.Context, sort string, check func(model.Sandbox) bool) error {
	for i := range d.Each {
		name := sort + strconv.Itoa(i)
		err := wait.Until(ctx, patience, "the status of "+name, func() error {
			row, err := d.store.Sandbox(ctx, deliveries.Organisation, name)
			if err == nil && !check(row) {
				err = fmt.Errorf("it is %+v of generation %d", row.Status, row.Generation)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// applied waits until all rows were delivered.
func (d *restoring) applied(ctx context.Context) error {
	return wait.Until(ctx, patience, "all rows are delivered", func() error {
		rows, err := d.store.Sandboxes(ctx, deliveries.Organisation)
		for _, row := range rows {
			if !row.DeletedAt.IsZero() || row.Status.Applied != row.Generation {
				err = errors.Join(err, fmt.Errorf("%s is not", row.Name))
			}
		}
		return errors.Join(err, d.groups(ctx, func(g model.RunnerGroup) bool { return g.Status.Applied == g.Generation }))
	})
}

// objects returns the versions of all objects, by name.
func (d *restoring) objects(ctx context.Context) (map[string]string, error) {
	var list crdv1.SignadotSandboxList
	err := d.client.List(ctx, &list)
	versions := map[string]string{}
	for _, o := range list.Items {
		versions[o.Name] = string(o.UID) + "/" + o.ResourceVersion
	}
	var groups crdv1.JobRunnerGroupList
	err = errors.Join(err, d.client.List(ctx, &groups))
	for _, o := range groups.Items {
		versions["group "+o.Name] = string(o.UID) + "/" + o.ResourceVersion
	}
	return versions, err
}
