// Package published translates between the published form of jobs and runner groups, which files and the API of a control
// plane have, and the objects of the cluster. It is pure.
//
//	Job, ReportOfJob       job.go
//	AttemptOf              attempt.go
//	Group, ReportOfGroup   group.go
package published

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/specfile"
)

// Group returns the JobRunnerGroup of a specification; namespace is the default one. Without scaling, or with automatic
// scaling, replicas is nil. The error is specfile.Problems, with paths and without lines.
func Group(name string, s v2.JobRunnerGroupSpec, namespace string) (*crdv1.JobRunnerGroup, error) {
	g := &crdv1.JobRunnerGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindJobRunnerGroup},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cmp.Or(value(s.Namespace), namespace), Annotations: map[string]string{}},
		Spec:       crdv1.JobRunnerGroupSpec{Image: value(s.Image), JobExecutionTimeout: value(s.JobTimeout), ReusePods: value(s.ReusePods)},
	}
	if len(s.Labels) > 0 {
		g.Annotations[crdv1.AnnotationLabels] = text(s.Labels)
	}
	var problems specfile.Problems
	for _, why := range validation.IsDNS1123Subdomain(name) {
		problems.Add("name", "is %q: %s", name, why)
	}
	for _, why := range validation.IsDNS1123Label(g.Namespace) {
		problems.Add("spec.namespace", "is %q: %s", g.Namespace, why)
	}
	if s.PodTemplate != nil {
		g.Spec.PodTemplate = &corev1.PodTemplateSpec{}
		problems = append(problems, template(s.PodTemplate, g.Spec.PodTemplate)...)
		if pod := g.Spec.PodTemplate.Spec; g.Spec.Image == "" && len(pod.Containers) > 0 {
			g.Spec.Image = pod.Containers[execunit.MainIndex(pod)].Image
		}
	}
	if g.Spec.Image == "" {
		problems.Add("spec.image", "is missing: name the image in which jobs run, or give a podTemplate with a container")
	}
	if d := g.Spec.JobExecutionTimeout; d != "" {
		if is, err := time.ParseDuration(d); err != nil || is <= 0 {
			problems.Add("spec.jobTimeout", "is %q: write a duration above 0, such as 90s or 1h30m", d)
		}
	}
	scale(g, s.Scaling, &problems)
	return g, problems.OrNil()
}

// scale sets the replicas of a group.
func scale(g *crdv1.JobRunnerGroup, s *v2.JobRunnerGroupScaling, problems *specfile.Problems) {
	switch {
	case s == nil:
	case s.Manual != nil && s.Auto != nil:
		problems.Add("spec.scaling", "has manual and auto: give one of them")
	case s.Manual != nil:
		if n := value(s.Manual.DesiredPods); n < 0 || n > mostPods {
			problems.Add("spec.scaling.manual.desiredPods", "is %d: write a number from 0 to %d", n, mostPods)
		} else {
			g.Spec.Replicas = new(int32(n))
		}
	case s.Auto != nil:
		if low, high := Bounds(s.Auto); low < 0 || high < 1 || low > high || high > mostPods {
			problems.Add("spec.scaling.auto", "has minPods %d and maxPods %d: write 0 ≤ minPods ≤ maxPods ≤ %d, and maxPods of at least 1", low, high, mostPods)
		}
	}
}

// mostPods is the maximum number of pods of a group: its status lists them.
const mostPods = 500

// Bounds returns the bounds of automatic scaling.
func Bounds(a *v2.JobRunnerGroupAutoScaling) (low, high int) {
	return value(a.MinPods), value(a.MaxPods)
}

// template decodes a pod template.
func template(from any, into *corev1.PodTemplateSpec) (out specfile.Problems) {
	text, err := json.Marshal(from)
	if err == nil {
		err = specfile.DecodeJSON(text, into)
	}
	if err == nil {
		return nil
	}
	const at = "spec.podTemplate"
	found, _ := err.(specfile.Problems) //nolint:errorlint // DecodeJSON does not wrap it
	if found == nil {
		out.Add(at, "cannot be read: %v", err)
	}
	for _, p := range found {
		p.Path = strings.TrimSuffix(at+"."+p.Path, ".")
		out = append(out, p)
	}
	return out
}

// ReportOfGroup returns a JobRunnerGroup as the published API has it, with the numbers of its jobs.
func ReportOfGroup(g *crdv1.JobRunnerGroup, jobs []crdv1.Job) v2.JobRunnerGroup {
	st := g.Status
	s := v2.JobRunnerGroupSpec{Namespace: &g.Namespace, Image: &g.Spec.Image, JobTimeout: orNil(g.Spec.JobExecutionTimeout), ReusePods: &g.Spec.ReusePods, Labels: labels(g)}
	if g.Spec.PodTemplate != nil {
		s.PodTemplate = g.Spec.PodTemplate
	}
	if g.Spec.Replicas != nil {
		s.Scaling = &v2.JobRunnerGroupScaling{Manual: &v2.JobRunnerGroupManualScaling{DesiredPods: new(int(*g.Spec.Replicas))}}
	}
	out := v2.JobRunnerGroup{
		Name: g.Name, CreatedAt: stamp(g.CreationTimestamp.Time), UpdatedAt: stamp(g.CreationTimestamp.Time), DeletedAt: when(at(g.DeletionTimestamp)), Spec: s,
		Status: v2.JobRunnerGroupStatus{Pods: v2.JobRunnerGroupPodsStatus{Ready: int(st.ReadyReplicas), NotReady: int(st.UnavailableReplicas), Idle: int(st.ReadyIdleReplicas)}},
	}
	if c := crdv1.FindCondition(st.Conditions, crdv1.ConditionReady); c != nil && c.Status != "True" {
		out.Status.Message = orNil(c.Message)
	}
	for i := range jobs {
		if r := jobs[i].Spec.RunnerGroup; r.Name != g.Name || r.Namespace != g.Namespace {
			continue
		}
		switch AttemptOf(&jobs[i]).Phase {
		case Queued:
			out.Status.Executions.Queued++
		case Running:
			out.Status.Executions.Running++
		}
	}
	return out
}
