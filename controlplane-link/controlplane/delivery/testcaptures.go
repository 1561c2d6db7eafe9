package delivery

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/store"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/recording"
)

const (
	// capturesWithin is how long the jobs of an execution wait for its captures, and capturesAgain is the pause between two reads.
	capturesWithin, capturesAgain = 2 * time.Minute, time.Second
	// mostRecorded is how many sandboxes of a route group are recorded.
	mostRecorded = 10
)

// holdCaptures has the requests recorded that members of its sandboxes receive for the calls of an execution, in the name of its
// author. It reports whether its jobs can begin: each capture records, or has ended, or takes too long. It can be repeated.
func (s *site) holdCaptures(ctx context.Context, x *model.TestExecution) (ready bool, err error) {
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
		// Before one is created: endCaptures ends those that are named.
		if is, err := s.tests().Observe(ctx, *x, time.Time{}); !is || err != nil {
			return false, err
		}
	}
	ready = true
	for i := range x.Status.Captures {
		c, err := s.hold(ctx, *x, &x.Status.Captures[i])
		if err != nil {
			return false, err
		}
		if c.EndedAt.IsZero() && !c.Progress.Ready && time.Since(c.CreatedAt) < capturesWithin {
			ready = false
		}
	}
	return ready, nil
}

// recorded returns the sandboxes of an execution with members.
func (s *site) recorded(ctx context.Context, x model.TestExecution) (names []string, err error) {
	all := []string{x.Sandbox}
	if x.Sandbox == "" {
		group := &crdv1.SignadotRouteGroup{}
		if err := s.live.Get(ctx, client.ObjectKey{Name: *x.Spec.ExecutionContext.Routing.Routegroup}, group); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		all = group.Spec.SandboxNames
	}
	for _, name := range all {
		of, err := s.Store.Sandbox(ctx, x.Org, name)
		if ignoreMissing(err) != nil {
			return nil, err
		}
		if err == nil && of.Cluster == x.Cluster && smarttests.HasMembers(of) && len(names) < mostRecorded {
			names = append(names, name)
		}
	}
	return names, nil
}

// hold returns a capture of an execution, which it creates, or the zero Capture if there is none; of then has the cause.
func (s *site) hold(ctx context.Context, x model.TestExecution, of *v2.TestExecutionCapture) (captures.Capture, error) {
	c, err := s.Captures.Capture(ctx, x.Org, of.Name)
	if !errors.Is(err, model.ErrNotFound) || of.Message != nil {
		return c, ignoreMissing(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	c = captures.Capture{Org: x.Org, Name: of.Name, Cluster: x.Cluster, Sandbox: of.Sandbox, CreatedAt: now, Until: now.Add(recording.Longest), Author: x.Author}
	err = s.Captures.Create(ctx, c, s.eventOf(x.Org, store.Capture, c.Name, "create"))
	if errors.Is(err, model.ErrTooMany) {
		of.Message = new(err.Error())
		return captures.Capture{}, nil
	}
	return c, err
}

// endCaptures ends the captures of an execution. Their recordings stay.
func (s *site) endCaptures(ctx context.Context, x model.TestExecution) error {
	for _, of := range x.Status.Captures {
		c, err := s.Captures.Capture(ctx, x.Org, of.Name)
		if err == nil && c.StoppedAt.IsZero() && c.EndedAt.IsZero() {
			err = s.Captures.End(ctx, c, false, time.Now().UTC(), s.eventOf(x.Org, store.Capture, c.Name, "end"))
		}
		if ignoreMissing(err) != nil {
			return err
		}
	}
	return nil
}
