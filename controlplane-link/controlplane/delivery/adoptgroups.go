package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/controlplane-link/controlplane/delivery/observed"
	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs/published"
)

// adoptGroups is Adopt for runner groups. Jobs without a row run and end in the cluster.
func (s *site) adoptGroups(ctx context.Context, dry bool, out *Adoption) error {
	var all crdv1.JobRunnerGroupList
	org := s.at.Organisation
	present, err := s.Store.Generation(ctx, org)
	listed := s.live.List(ctx, &all)
	if isRefused(listed) { // an earlier release, to which no runner group is delivered either
		return err
	}
	if err := errors.Join(err, listed); err != nil {
		return fmt.Errorf("cluster %s: %w", s.at.Name, err)
	}
	for i := range all.Items {
		o, r := &all.Items[i], request{store.RunnerGroup, all.Items[i].Name}
		if !s.valid(r, o, present, out) {
			continue
		}
		g, err := s.jobs().Group(ctx, org, o.Name)
		if known := err == nil; known && !newerGroup(g, o) {
			continue
		} else if !known && !errors.Is(err, model.ErrNotFound) {
			return err
		}
		left, err := s.adoptGroup(ctx, g, o, dry)
		if err != nil {
			return err
		}
		out.add(r, left)
	}
	return nil
}

// adoptGroup is adopt for a runner group. Its row can be the zero value.
func (s *site) adoptGroup(ctx context.Context, row model.RunnerGroup, o *crdv1.JobRunnerGroup, dry bool) (left string, err error) {
	newest, org := crdv1.GenerationOf(o), s.at.Organisation
	if row.Name != "" && (row.Cluster != s.at.Name || row.Namespace != o.Namespace) {
		return "the store has another one of this name", nil
	}
	if !row.DeletedAt.IsZero() {
		left = "it is deleted, as in the store"
	}
	if dry {
		return left, nil
	}
	if left == "" {
		spec := published.ReportOfGroup(o, nil).Spec
		spec.Cluster = &s.at.Name
		if auto := desired.AutoScaling(row); auto != nil { // the object has a number of pods only
			spec.Scaling = &v2.JobRunnerGroupScaling{Auto: auto}
		}
		row = model.RunnerGroup{Org: org, Name: o.Name, Cluster: s.at.Name, Namespace: o.Namespace, CreatedAt: o.CreationTimestamp.UTC(), UpdatedAt: time.Now().UTC(), Author: observed.AuthorOf(o, org)}
		if row.Spec, err = json.Marshal(spec); err != nil {
			return "", err
		}
		ev := s.eventOf(org, store.RunnerGroup, o.Name, "adopt")
		err := s.Store.Adopt(ctx, org, newest, s.eventOf(org, store.RunnerGroup, o.Name, "generation"))
		if _, fault := s.jobs().PutGroup(ctx, row, ev); err != nil || fault != nil {
			return errors.Join(err, fault).Error(), nil
		}
	}
	for range most {
		row, err := s.jobs().Group(ctx, org, o.Name)
		status := row.Status
		status.Attempted = newest
		if is, failed := s.jobs().ObserveGroup(ctx, row, status); is || err != nil || failed != nil {
			return left, errors.Join(err, failed)
		}
	}
	return "its status changes all the time: adopt the cluster again", nil
}

// most is how often a status is written that others change.
const most = 10
