package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// adoptWork is Adopt for runner groups. Jobs without a row are left: they run and end in the cluster.
func (s *site) adoptWork(ctx context.Context, dry bool, out *Adoption) error {
	var groups crdv1.JobRunnerGroupList
	var jobs crdv1.JobList
	org := s.at.Organisation
	present, err := s.Store.Generation(ctx, org)
	if err := errors.Join(err, s.live.List(ctx, &groups), s.live.List(ctx, &jobs)); err != nil {
		return fmt.Errorf("cluster %s: %w", s.at.Name, err)
	}
	var newest int64
	for i := range jobs.Items {
		o, r := &jobs.Items[i], request{store.Job, jobs.Items[i].Name}
		if !s.valid(r, o, present, out) {
			continue
		}
		newest = max(newest, crdv1.GenerationOf(o))
		_, err := s.jobs().Job(ctx, org, r.name)
		if is := errors.Is(err, model.ErrNotFound); err != nil && !is {
			return err
		} else if st := o.Status.State; is && (st == nil || st.Terminated == nil) {
			out.Left = append(out.Left, fmt.Sprintf("%s: it was submitted after the backup: read its state and output in cluster %s", r, s.at.Name))
		}
	}
	var all []*crdv1.JobRunnerGroup
	for i := range groups.Items {
		if o := &groups.Items[i]; s.valid(request{store.RunnerGroup, o.Name}, o, present, out) {
			newest, all = max(newest, crdv1.GenerationOf(o)), append(all, o)
		}
	}
	if !dry {
		err = s.Store.Adopt(ctx, org, newest, s.eventOf(org, store.Cluster, s.at.Name, "adopt"))
	}
	for _, o := range all {
		if err == nil {
			err = s.adoptGroup(ctx, o, dry, out)
		}
	}
	return err
}

// adoptGroup is adopt for a runner group.
func (s *site) adoptGroup(ctx context.Context, o *crdv1.JobRunnerGroup, dry bool, out *Adoption) error {
	left := ""
	g, err := s.jobs().Group(ctx, s.at.Organisation, o.Name)
	switch known := err == nil; {
	case !known && !errors.Is(err, model.ErrNotFound):
		return err
	case known && (g.Cluster != s.at.Name || g.Namespace != o.Namespace):
		left, dry = "the store has another one of this name", true
	case known && !newerGroup(g, o):
		return nil
	case known && !g.DeletedAt.IsZero():
		left = "it is deleted, as in the store"
	}
	if !dry && left == "" {
		if g, err = s.groupOf(o, g); err == nil {
			g, err = s.jobs().PutGroup(ctx, g, s.eventOf(g.Org, store.RunnerGroup, g.Name, "adopt"))
		}
		if err != nil {
			left = err.Error()
		}
	}
	if left == "" {
		out.Taken = append(out.Taken, request{store.RunnerGroup, o.Name}.String())
	} else {
		out.Left = append(out.Left, request{store.RunnerGroup, o.Name}.String()+": "+left)
	}
	if dry || err != nil {
		return nil // it is among those that are left
	}
	g.Status.Attempted = crdv1.GenerationOf(o)
	return s.recordGroup(ctx, g, g.Status)
}

// groupOf returns the row that an object was written from. Its labels and automatic scaling are those of the present row.
func (s *site) groupOf(o *crdv1.JobRunnerGroup, row model.RunnerGroup) (_ model.RunnerGroup, err error) {
	var in desired.RunnerGroupSpec
	_ = json.Unmarshal(row.Spec, &in) // without a row there are none
	in.Cluster, in.Namespace, in.Image, in.PodTemplate, in.JobTimeout, in.ReusePods = s.at.Name, o.Namespace, o.Spec.Image, nil, o.Spec.JobExecutionTimeout, o.Spec.ReusePods
	if o.Spec.PodTemplate != nil {
		in.PodTemplate, err = json.Marshal(o.Spec.PodTemplate)
	}
	if in.Scaling.Auto == nil {
		in.Scaling.Manual = &desired.ManualScaling{DesiredPods: present(o)}
	}
	row.Org, row.Name, row.Cluster, row.Namespace = s.at.Organisation, o.Name, s.at.Name, o.Namespace
	row.CreatedAt, row.UpdatedAt, row.Author = o.CreationTimestamp.UTC(), time.Now().UTC(), authorOf(o, row.Org)
	text, unencoded := json.Marshal(in)
	row.Spec = text
	return row, errors.Join(err, unencoded)
}
