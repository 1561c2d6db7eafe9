// Package recordings has the requests recorded that members of sandboxes receive for the calls of Smart Tests.
package recordings

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/captures"
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

// Recordings are those of one cluster.
type Recordings struct {
	// Captures has them; nil: nothing is recorded.
	Captures *captures.Store
	Tests    teststore.Store
	// Live reads the cluster.
	Live client.Reader
	// Event returns the entry of the audit trail for a change.
	Event func(org string, kind store.Kind, name, verb string, because ...string) model.Event
}

// Begin has the requests of an execution recorded, in the name of its author. It reports whether its jobs can begin: each capture
// records, or has ended, or takes too long. It can be repeated.
func (s Recordings) Begin(ctx context.Context, x *model.TestExecution) (ready bool, err error) {
	if s.Captures == nil || !smarttests.Records(*x) {
		return true, nil
	}
	if x.Status.Captures == nil {
		names, err := s.recorded(ctx, *x)
		if err != nil || len(names) == 0 {
			return err == nil, err
		}
		for _, name := range names {
			x.Status.Captures = append(x.Status.Captures, v2.TestExecutionCapture{Name: smarttests.Recording(x.ID, name), Sandbox: name})
		}
		// Before one is created: End ends those that are named.
		if is, err := s.Tests.Observe(ctx, *x, time.Time{}); !is || err != nil {
			return false, err
		}
	}
	ready = true
	for i := range x.Status.Captures {
		c, err := s.hold(ctx, *x, &x.Status.Captures[i])
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
func (s Recordings) recorded(ctx context.Context, x model.TestExecution) (names []string, err error) {
	all := []string{x.Sandbox}
	if x.Sandbox == "" {
		group := &crdv1.SignadotRouteGroup{}
		if err := s.Live.Get(ctx, client.ObjectKey{Name: *x.Spec.ExecutionContext.Routing.Routegroup}, group); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		all = group.Spec.SandboxNames
	}
	for _, name := range all {
		of, err := s.Captures.Sandbox(ctx, x.Org, name)
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
func (s Recordings) hold(ctx context.Context, x model.TestExecution, of *v2.TestExecutionCapture) (captures.Capture, error) {
	c, err := s.Captures.Capture(ctx, x.Org, of.Name)
	if !errors.Is(err, model.ErrNotFound) || of.Message != nil {
		return c, unlessMissing(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	c = captures.Capture{Org: x.Org, Name: of.Name, Cluster: x.Cluster, Sandbox: of.Sandbox, CreatedAt: now, Until: now.Add(recording.Longest), Author: x.Author}
	err = s.Captures.Create(ctx, c, s.Event(x.Org, store.Capture, c.Name, "create"))
	if errors.Is(err, model.ErrTooMany) {
		of.Message = new(err.Error())
		return captures.Capture{}, nil
	}
	return c, err
}

// End ends the captures of an execution. Their requests stay.
func (s Recordings) End(ctx context.Context, x model.TestExecution) error {
	for _, of := range x.Status.Captures {
		c, err := s.Captures.Capture(ctx, x.Org, of.Name)
		if err == nil && c.StoppedAt.IsZero() && c.EndedAt.IsZero() {
			err = s.Captures.End(ctx, c, false, time.Now().UTC(), s.Event(x.Org, store.Capture, c.Name, "end"))
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
