package published

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
	"switchyard.dev/workflows/specfile"
)

// injections are the values of injectRoutingKey in objects, by the published ones.
var injections = map[string]string{"": "", "disabled": "Disabled", "auto": jobs.InjectAuto}

// prefix matches the published prefixes of names.
var prefix = regexp.MustCompile(`^[a-zA-Z0-9_-]{0,32}$`)

// Job returns the Job of a specification for a runner group in a namespace: with its generateName, the prefix of its name.
// The error is specfile.Problems, with paths and without lines.
func Job(s v2.JobSpec, namespace string) (*crdv1.Job, error) {
	j := &crdv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindJob},
		ObjectMeta: metav1.ObjectMeta{GenerateName: Prefix(s), Annotations: map[string]string{}},
		Spec: crdv1.JobSpec{
			RunnerGroup: crdv1.NamespacedName{Namespace: namespace, Name: value(s.RunnerGroup)},
			Content:     crdv1.JobContent{Command: s.Command, Script: value(s.Script)},
		},
	}
	if s.Retries != nil {
		j.Annotations[crdv1.AnnotationRetries] = strconv.Itoa(*s.Retries)
	}
	if len(s.Labels) > 0 {
		j.Annotations[crdv1.AnnotationLabels] = text(s.Labels)
	}
	for _, e := range s.Env {
		j.Spec.Env = append(j.Spec.Env, crdv1.JobEnv{Name: value(e.Name), Value: value(e.Value)})
	}
	for _, a := range s.UploadArtifact {
		j.Spec.Artifacts = append(j.Spec.Artifacts, crdv1.JobArtifact{Path: value(a.Path), Meta: a.Meta})
	}
	if c := s.RoutingContext; c != nil && value(c.Sandbox)+value(c.Routegroup) != "" { // else the baseline
		j.Spec.RoutingContext = &crdv1.JobRoutingContext{SandboxName: value(c.Sandbox), RouteGroupName: value(c.Routegroup)}
	}
	var problems specfile.Problems
	if m := s.TrafficManager; m != nil {
		inject, is := injections[value(m.InjectRoutingKey)]
		if !is {
			problems.Add("spec.trafficManager.injectRoutingKey", "is %q: write auto or disabled", *m.InjectRoutingKey)
		}
		j.Spec.TrafficManager = &crdv1.JobTrafficManager{Enabled: value(m.Enabled), InjectRoutingKey: inject}
	}
	if value(s.RunnerGroup) == "" {
		problems.Add("spec.runnerGroup", "is missing: name a runner group")
	}
	if !prefix.MatchString(value(s.NamePrefix)) {
		problems.Add("spec.namePrefix", "is %q: it has at most 32 letters, digits, - and _", *s.NamePrefix)
	}
	checked := *j
	checked.Spec.RunnerGroup = crdv1.NamespacedName{Namespace: "n", Name: "n"} // checked above
	for _, sentence := range jobs.Accept(&checked) {
		path, rest, _ := strings.Cut(paths.Replace("\n"+sentence), " ")
		bare, named := strings.CutSuffix(path, ":")
		if named {
			rest = "is wrong: " + rest
		}
		problems.Add(bare, "%s", strings.TrimSuffix(rest, "."))
	}
	return j, problems.OrNil()
}

// paths are the published paths of fields, by those at the start of sentences of jobs.Accept.
var paths = strings.NewReplacer("\ncontent.", "spec.", "\ncontent ", "spec ", "\nartifacts", "spec.uploadArtifact", "\nthe annotation", "spec.retries:", "\n", "spec.")

// Prefix returns the beginning of the names of objects: the prefix of the specification in the letters that
// names of objects can have.
func Prefix(s v2.JobSpec) string {
	name := strings.Trim(strings.ReplaceAll(strings.ToLower(value(s.NamePrefix)), "_", "-"), "-")
	if name == "" {
		return "job-"
	}
	return name + "-"
}

// ReportOfJob returns a Job as the published API has it.
func ReportOfJob(j *crdv1.Job) v2.Job {
	return v2.Job{Name: j.Name, CreatedAt: stamp(j.CreationTimestamp.Time), Spec: specOf(j), Status: v2.JobsStatus{Attempts: []v2.JobsAttempt{AttemptOf(j).Report(j.CreationTimestamp.Time)}}}
}

// specOf is the inverse of Job.
func specOf(j *crdv1.Job) v2.JobSpec {
	s := v2.JobSpec{RunnerGroup: &j.Spec.RunnerGroup.Name, Script: orNil(j.Spec.Content.Script), Command: j.Spec.Content.Command, Labels: labels(j)}
	if n, err := strconv.Atoi(j.Annotations[crdv1.AnnotationRetries]); err == nil {
		s.Retries = &n
	}
	if j.GenerateName != "" {
		s.NamePrefix = new(strings.TrimSuffix(j.GenerateName, "-"))
	}
	s.Env = lists.Map(j.Spec.Env, func(e crdv1.JobEnv) v2.JobEnvItem { return v2.JobEnvItem{Name: &e.Name, Value: &e.Value} })
	s.UploadArtifact = lists.Map(j.Spec.Artifacts, func(a crdv1.JobArtifact) v2.JobUploadArtifact {
		return v2.JobUploadArtifact{Path: &a.Path, Meta: a.Meta}
	})
	if c := j.Spec.RoutingContext; c != nil {
		s.RoutingContext = &v2.JobRoutingContext{Sandbox: orNil(c.SandboxName), Routegroup: orNil(c.RouteGroupName)}
	}
	if m := j.Spec.TrafficManager; m != nil {
		s.TrafficManager = &v2.JobTrafficManager{Enabled: &m.Enabled, InjectRoutingKey: orNil(strings.ToLower(m.InjectRoutingKey))}
	}
	return s
}

// ArtifactsOf returns the artifacts of a Job, and its output with the space system.
func ArtifactsOf(j *crdv1.Job) []v2.JobArtifact {
	out := []v2.JobArtifact{}
	e := j.Status.Execution
	if e == nil {
		return out
	}
	var until *string
	if e.Output != nil && e.Output.Message == "" { // else the pod alone has them, and for less time
		until = when(at(e.Output.StoredUntil))
	}
	for _, a := range e.Artifacts {
		out = append(out, v2.JobArtifact{Path: a.Path, Size: &a.Size, Problem: orNil(a.Problem), Space: "user", ExpiresAt: until})
	}
	if o := e.Output; o != nil {
		out = append(out, v2.JobArtifact{Path: "stdout", Size: &o.Stdout, Space: "system", Problem: lost(o), ExpiresAt: until},
			v2.JobArtifact{Path: "stderr", Size: &o.Stderr, Space: "system", Problem: lost(o), ExpiresAt: until})
	}
	return out
}

// lost returns why output can no longer be read.
func lost(o *crdv1.JobOutput) *string {
	if o.State != crdv1.OutputLost {
		return nil
	}
	return &o.Message
}

// labels returns the labels of a specification.
func labels(o metav1.Object) (out map[string]string) {
	_ = json.Unmarshal([]byte(o.GetAnnotations()[crdv1.AnnotationLabels]), &out) // Job and Group write it
	return out
}

// text returns labels as JSON.
func text(labels map[string]string) string {
	b, _ := json.Marshal(labels) // it has only texts
	return string(b)
}

// value returns an optional value, or its zero value.
func value[T any](p *T) (out T) {
	if p != nil {
		out = *p
	}
	return out
}

// orNil returns a text that is not empty.
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
