package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
	"switchyard.dev/workflows/specfile"
)

// JobSpec is the published specification of a job. Retries are an addition.
type JobSpec struct {
	NamePrefix     string             `json:"namePrefix,omitempty"`
	RunnerGroup    string             `json:"runnerGroup,omitempty"`
	Script         string             `json:"script,omitempty"`
	Command        []string           `json:"command,omitempty"`
	Env            []crdv1.JobEnv     `json:"env,omitempty"`
	Labels         map[string]string  `json:"labels,omitempty"`
	RoutingContext JobRoutingContext  `json:"routingContext,omitzero"`
	TrafficManager *JobTrafficManager `json:"trafficManager,omitempty"`
	UploadArtifact []JobArtifact      `json:"uploadArtifact,omitempty"`
	Retries        int                `json:"retries,omitempty"`
}

// JobRoutingContext names a sandbox or a route group; none: the baseline.
type JobRoutingContext struct {
	Sandbox    string `json:"sandbox,omitempty"`
	RouteGroup string `json:"routegroup,omitempty"`
}

// JobTrafficManager is how requests of a job are treated.
type JobTrafficManager struct {
	Enabled          bool   `json:"enabled,omitempty"`
	InjectRoutingKey string `json:"injectRoutingKey,omitempty"`
}

// JobArtifact is a file that is kept.
type JobArtifact struct {
	Path string            `json:"path"`
	Meta map[string]string `json:"meta,omitempty"`
}

var prefixes = regexp.MustCompile(`^[a-zA-Z0-9_-]{0,32}$`)

// Job returns the object of a job. The error is specfile.Problems if the specification is not valid.
func Job(row model.Job) (*crdv1.Job, error) {
	var in JobSpec
	if err := json.Unmarshal(row.Spec, &in); err != nil {
		return nil, fmt.Errorf("read the specification of job %s: %w", row.Name, err)
	}
	var problems specfile.Problems
	if !prefixes.MatchString(in.NamePrefix) {
		problems.Add("spec.namePrefix", "is %q; it can have 32 letters, digits, - and _", in.NamePrefix)
	}
	o := &crdv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: crdv1.GroupVersion().String(), Kind: crdv1.KindJob},
		ObjectMeta: metav1.ObjectMeta{Name: row.Name, Annotations: map[string]string{
			crdv1.AnnotationGeneration:   strconv.FormatInt(row.Generation, 10),
			crdv1.AnnotationJobSequence:  strconv.FormatInt(row.Sequence, 10),
			crdv1.AnnotationOrganisation: row.Org,
		}},
		Spec: crdv1.JobSpec{
			Canceled: !row.CanceledAt.IsZero(), Content: crdv1.JobContent{Command: in.Command, Script: in.Script}, Env: in.Env,
			RunnerGroup: crdv1.NamespacedName{Namespace: row.Namespace, Name: in.RunnerGroup},
		},
	}
	if in.Retries != 0 {
		o.Annotations[crdv1.AnnotationRetries] = strconv.Itoa(in.Retries)
	}
	if c := in.RoutingContext; c != (JobRoutingContext{}) {
		o.Spec.RoutingContext = &crdv1.JobRoutingContext{SandboxName: c.Sandbox, RouteGroupName: c.RouteGroup}
	}
	if m := in.TrafficManager; m != nil {
		inject, known := map[string]string{"": "Disabled", "disabled": "Disabled", "auto": "Auto"}[m.InjectRoutingKey]
		if !known {
			problems.Add("spec.trafficManager.injectRoutingKey", "is %q; use auto or disabled", m.InjectRoutingKey)
		}
		o.Spec.TrafficManager = &crdv1.JobTrafficManager{Enabled: m.Enabled || inject == "Auto", InjectRoutingKey: inject}
	}
	for _, a := range in.UploadArtifact {
		o.Spec.Artifacts = append(o.Spec.Artifacts, crdv1.JobArtifact{Path: a.Path, Meta: a.Meta})
	}
	for _, text := range jobs.Accept(o) {
		problems.Add("spec", "%s", text)
	}
	return o, problems.OrNil()
}

// RunnerGroupSpec is the published specification of a runner group.
type RunnerGroupSpec struct {
	Cluster     string            `json:"cluster,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Image       string            `json:"image,omitempty"`
	PodTemplate json.RawMessage   `json:"podTemplate,omitempty"`
	JobTimeout  string            `json:"jobTimeout,omitempty"`
	ReusePods   bool              `json:"reusePods,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Scaling     Scaling           `json:"scaling,omitzero"`
}

// Scaling is how many pods a runner group has: manually, or automatically. The default is one pod.
type Scaling struct {
	Manual *ManualScaling `json:"manual,omitempty"`
	Auto   *AutoScaling   `json:"auto,omitempty"`
}

// ManualScaling is a fixed number of pods.
type ManualScaling struct {
	DesiredPods int32 `json:"desiredPods"`
}

// AutoScaling is a number of pods that follows the jobs.
type AutoScaling struct {
	MinPods int32 `json:"minPods,omitempty"`
	MaxPods int32 `json:"maxPods,omitempty"`
}

const (
	// DefaultNamespace is that of runner groups that name none.
	DefaultNamespace = "signadot"
	mostPods         = 500
)

// ScalingOf returns the scaling of a runner group; the zero value if its specification cannot be read.
func ScalingOf(row model.RunnerGroup) Scaling {
	var in RunnerGroupSpec
	_ = json.Unmarshal(row.Spec, &in)
	return in.Scaling
}

// RunnerGroup returns the object of a runner group; replicas is the number of its pods if it scales automatically. The
// error is specfile.Problems if the specification is not valid.
func RunnerGroup(row model.RunnerGroup, replicas int32) (*crdv1.JobRunnerGroup, error) {
	var in RunnerGroupSpec
	if err := json.Unmarshal(row.Spec, &in); err != nil {
		return nil, fmt.Errorf("read the specification of runner group %s: %w", row.Name, err)
	}
	var problems specfile.Problems
	for path, text := range map[string]string{"name": row.Name, "spec.namespace": row.Namespace} {
		if len(validation.IsDNS1123Label(text)) > 0 {
			problems.Add(path, "is %q; it can have 63 lower-case letters, digits and -, and begins and ends with a letter or digit", text)
		}
	}
	o := &crdv1.JobRunnerGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: crdv1.GroupVersion().String(), Kind: crdv1.KindJobRunnerGroup},
		ObjectMeta: metav1.ObjectMeta{Name: row.Name, Namespace: row.Namespace, Annotations: map[string]string{
			crdv1.AnnotationGeneration: strconv.FormatInt(row.Generation, 10),
		}},
		Spec: crdv1.JobRunnerGroupSpec{Image: in.Image, JobExecutionTimeout: in.JobTimeout, ReusePods: in.ReusePods},
	}
	if in.Cluster == "" {
		problems.Add("spec.cluster", "is missing; name a registered cluster")
	}
	if d, err := time.ParseDuration(cmp.Or(in.JobTimeout, "30m")); err != nil || d <= 0 {
		problems.Add("spec.jobTimeout", "is %q; write a duration above 0, such as 90s or 1h30m", in.JobTimeout)
	}
	if in.PodTemplate != nil {
		o.Spec.PodTemplate = &corev1.PodTemplateSpec{}
		if err := specfile.DecodeJSON(in.PodTemplate, o.Spec.PodTemplate); err != nil {
			problems.Add("spec.podTemplate", "is no pod template: %v", err)
		}
	}
	o.Spec.Image = cmp.Or(in.Image, mainImage(o.Spec.PodTemplate))
	if o.Spec.Image == "" {
		problems.Add("spec.image", "is missing; name the image of the pods, here or in podTemplate")
	}
	o.Spec.Replicas = in.Scaling.replicas(replicas, &problems)
	return o, problems.OrNil()
}

// replicas returns the number of pods.
func (s Scaling) replicas(auto int32, problems *specfile.Problems) *int32 {
	switch m, a := s.Manual, s.Auto; {
	case m != nil && a != nil:
		problems.Add("spec.scaling", "has manual and auto; remove one of them")
	case m != nil:
		if m.DesiredPods < 0 || m.DesiredPods > mostPods {
			problems.Add("spec.scaling.manual.desiredPods", "is %d; it can be 0 to %d", m.DesiredPods, mostPods)
		}
		return &m.DesiredPods
	case a != nil:
		if a.MinPods < 0 || a.MaxPods < 1 || a.MinPods > a.MaxPods || a.MaxPods > mostPods {
			problems.Add("spec.scaling.auto", "has minPods %d and maxPods %d; use 0 ≤ minPods ≤ maxPods, and 1 ≤ maxPods ≤ %d", a.MinPods, a.MaxPods, mostPods)
		}
		return &auto
	}
	return new(int32(1))
}

// mainImage returns the image of the container "main", or else of the first one.
func mainImage(t *corev1.PodTemplateSpec) string {
	if t == nil || len(t.Spec.Containers) == 0 {
		return ""
	}
	for _, c := range t.Spec.Containers {
		if c.Name == "main" {
			return c.Image
		}
	}
	return t.Spec.Containers[0].Image
}

// IdleFor is how long a group keeps pods that it does not need.
const IdleFor = 5 * time.Minute

// Replicas returns how many pods a runner group has that scales automatically: one for each job that has not ended,
// within its bounds, and its present number until fewer have been enough for five minutes.
func (a AutoScaling) Replicas(queued, running int, present int32, enough time.Duration) int32 {
	want := min(max(int32(min(queued+running, mostPods)), a.MinPods), a.MaxPods)
	if present = min(present, a.MaxPods); want >= present || enough >= IdleFor {
		return want
	}
	return present
}
