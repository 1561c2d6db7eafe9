// Package testrun begins executions of Smart Tests: it submits their jobs, and has the requests recorded that members of sandboxes
// receive for their calls.
package testrun

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/recording"
)

const (
	// within is how long the jobs of an execution wait for its captures.
	within = 2 * time.Minute
	// mostRecorded is how many sandboxes of a route group are recorded.
	mostRecorded = 10
)

// Runs are the executions of one cluster.
type Runs struct {
	Tests teststore.Store
	Jobs  jobstore.Store
	// Captures has the recordings; nil: nothing is recorded.
	Captures *captures.Store
	// Live reads the cluster.
	Live client.Reader
	// Program is the path of the interpreter in its image.
	Program string
	// Event returns the entry of the audit trail for a change.
	Event func(org string, kind store.Kind, name, verb string, because ...string) model.Event
}

// Record has the requests of an execution recorded, in the name of its author. It reports whether its jobs can begin: each capture
// records, or has ended, or takes too long. It can be repeated.
func (r Runs) Record(ctx context.Context, x *model.TestExecution) (ready bool, err error) {
	if r.Captures == nil || !smarttests.Records(*x) {
		return true, nil
	}
	if x.Status.Captures == nil {
		names, err := r.recorded(ctx, *x)
		if err != nil || len(names) == 0 {
			return err == nil, err
		}
		for _, name := range names {
			x.Status.Captures = append(x.Status.Captures, v2.TestExecutionCapture{Name: smarttests.Recording(x.ID, name), Sandbox: name})
		}
		// Before one is created: EndRecording ends those that are named.
		if is, err := r.Tests.Observe(ctx, *x, time.Time{}); !is || err != nil {
			return false, err
		}
	}
	ready = true
	for i := range x.Status.Captures {
		c, err := r.hold(ctx, *x, &x.Status.Captures[i])
		if err != nil {
			return false, err
		}
		if c.EndedAt.IsZero() && !c.Progress.Ready && time.Since(c.CreatedAt) < within {
			ready = false
		}
	}
	return ready, nil
}

// recorded returns the sandboxes of an execution with members.
func (r Runs) recorded(ctx context.Context, x model.TestExecution) (names []string, err error) {
	all := []string{x.Sandbox}
	if x.Sandbox == "" {
		group := &crdv1.SignadotRouteGroup{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: *x.Spec.ExecutionContext.Routing.Routegroup}, group); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		all = group.Spec.SandboxNames
	}
	for _, name := range all {
		of, err := r.Captures.Sandbox(ctx, x.Org, name)
		if unlessMissing(err) != nil {
			return nil, err
		}
		if err == nil && of.Cluster == x.Cluster && smarttests.HasMembers(of) && len(names) < mostRecorded {
			names = append(names, name)
		}
	}
	return names, nil
}

// hold returns a capture of an execution, which it creates, or the zero Capture if there is none; of then has the cause.
func (r Runs) hold(ctx context.Context, x model.TestExecution, of *v2.TestExecutionCapture) (captures.Capture, error) {
	c, err := r.Captures.Capture(ctx, x.Org, of.Name)
	if !errors.Is(err, model.ErrNotFound) || of.Message != nil {
		return c, unlessMissing(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	c = captures.Capture{Org: x.Org, Name: of.Name, Cluster: x.Cluster, Sandbox: of.Sandbox, CreatedAt: now, Until: now.Add(recording.Longest), Author: x.Author}
	err = r.Captures.Create(ctx, c, r.Event(x.Org, store.Capture, c.Name, "create"))
	if errors.Is(err, model.ErrTooMany) {
		of.Message = new(err.Error())
		return captures.Capture{}, nil
	}
	return c, err
}

// EndRecording ends the captures of an execution. Their requests stay.
func (r Runs) EndRecording(ctx context.Context, x model.TestExecution) error {
	for _, of := range x.Status.Captures {
		c, err := r.Captures.Capture(ctx, x.Org, of.Name)
		if err == nil && c.StoppedAt.IsZero() && c.EndedAt.IsZero() {
			err = r.Captures.End(ctx, c, false, time.Now().UTC(), r.Event(x.Org, store.Capture, c.Name, "end"))
		}
		if unlessMissing(err) != nil {
			return err
		}
	}
	return nil
}

func unlessMissing(err error) error {
	if errors.Is(err, model.ErrNotFound) {
		return nil
	}
	return err
}
