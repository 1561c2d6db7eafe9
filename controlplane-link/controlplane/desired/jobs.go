package desired

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs/published"
	"switchyard.dev/workflows/specfile"
)

// Job returns the object of a job. The error is specfile.Problems if the specification is not valid.
func Job(row model.Job) (*crdv1.Job, error) {
	var in v2.JobSpec
	if err := json.Unmarshal(row.Spec, &in); err != nil {
		return nil, fmt.Errorf("read the specification of job %s: %w", row.Name, err)
	}
	o, err := published.Job(in, row.Namespace)
	o.Name, o.GenerateName, o.Spec.Canceled = row.Name, "", !row.CanceledAt.IsZero()
	maps.Copy(o.Annotations, map[string]string{
		crdv1.AnnotationGeneration:   strconv.FormatInt(row.Generation, 10),
		crdv1.AnnotationJobSequence:  strconv.FormatInt(row.Sequence, 10),
		crdv1.AnnotationOrganisation: row.Org,
	})
	return o, err
}

// DefaultNamespace is that of runner groups that name none.
const DefaultNamespace = "signadot"

// AutoScaling returns the automatic scaling of a runner group; nil: it has none, or its specification cannot be read.
func AutoScaling(row model.RunnerGroup) *v2.JobRunnerGroupAutoScaling {
	var in v2.JobRunnerGroupSpec
	if err := json.Unmarshal(row.Spec, &in); err != nil || in.Scaling == nil {
		return nil
	}
	return in.Scaling.Auto
}

// RunnerGroup returns the object of a runner group; replicas is the number of its pods if it scales automatically. The
// error is specfile.Problems if the specification is not valid.
func RunnerGroup(row model.RunnerGroup, replicas int32) (*crdv1.JobRunnerGroup, error) {
	var in v2.JobRunnerGroupSpec
	if err := json.Unmarshal(row.Spec, &in); err != nil {
		return nil, fmt.Errorf("read the specification of runner group %s: %w", row.Name, err)
	}
	o, err := published.Group(row.Name, in, row.Namespace)
	if err == nil && (in.Cluster == nil || *in.Cluster == "") {
		err = specfile.Problems{{Path: "spec.cluster", Text: "is missing; name a registered cluster"}}
	}
	switch o.Annotations[crdv1.AnnotationGeneration] = strconv.FormatInt(row.Generation, 10); {
	case in.Scaling != nil && in.Scaling.Auto != nil:
		o.Spec.Replicas = &replicas
	case o.Spec.Replicas == nil:
		o.Spec.Replicas = new(int32(1))
	}
	return o, err
}

// IdleFor is how long a group keeps pods that it does not need.
const IdleFor = 5 * time.Minute

// Replicas returns how many pods a runner group has that scales automatically: one for each job that has not ended,
// within its bounds, and its present number until fewer have been enough for five minutes.
func Replicas(a *v2.JobRunnerGroupAutoScaling, queued, running int, present int32, enough time.Duration) int32 {
	low, high := published.Bounds(a)
	want := int32(min(max(queued+running, low), high)) //nolint:gosec // published.Group has bounded it.
	if present = min(present, int32(high)); want >= present || enough >= IdleFor {
		return want
	}
	return present
}
