package testrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/store"
)

// IsDeleted reports whether the sandbox or route group of an execution was deleted.
func IsDeleted(ctx context.Context, in *store.Store, x model.TestExecution, name string) (bool, error) {
	of, err := in.Sandbox(ctx, x.Org, name)
	if x.Sandbox == "" {
		var g model.RouteGroup
		g, err = in.RouteGroup(ctx, x.Org, name)
		of = model.Sandbox(g)
	}
	if errors.Is(err, model.ErrNotFound) {
		return true, nil
	}
	return err == nil && !of.DeletedAt.IsZero(), err
}

// ErrOtherGroup is the error for a runner group with the name of that of Smart Tests.
var ErrOtherGroup = errors.New("it is not that of Smart Tests: delete it, and run the test again")

// Submit submits the jobs of an execution and, for the first one of the cluster, its runner group, all in the name of the control
// plane itself. It can be repeated. The error can wrap model.ErrTooMany or ErrOtherGroup.
func (r Runs) Submit(ctx context.Context, x *model.TestExecution) error {
	now := time.Now().UTC().Truncate(time.Microsecond)
	g := smarttests.Group(x.Org, x.Cluster, now)
	is, err := r.Jobs.Group(ctx, g.Org, g.Name)
	if errors.Is(err, model.ErrNotFound) {
		is, err = r.Jobs.PutGroup(ctx, g, r.Event(g.Org, store.RunnerGroup, g.Name, "create"))
	}
	if err == nil && is.Namespace != g.Namespace {
		err = fmt.Errorf("runner group %q is in namespace %s: %w", is.Name, is.Namespace, ErrOtherGroup)
	}
	if err != nil {
		return err
	}
	for _, side := range smarttests.Sides(*x) {
		j, err := smarttests.Job(*x, side, r.Program, g.Name, now)
		if err != nil {
			return err
		}
		_, err = r.Jobs.Job(ctx, j.Org, j.Name)
		if errors.Is(err, model.ErrNotFound) {
			_, err = r.Jobs.Submit(ctx, j, r.Event(j.Org, store.Job, j.Name, "submit"))
		}
		if err != nil {
			return err
		}
		if side == smarttests.Target {
			x.Status.TargetJob = &j.Name
		} else {
			x.Status.BaselineJob = &j.Name
		}
	}
	_, err = r.Tests.Observe(ctx, *x, time.Time{})
	return err
}
