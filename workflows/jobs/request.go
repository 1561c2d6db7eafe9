package jobs

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
)

// DefaultTimeout is how long a script may run where the group sets no jobExecutionTimeout.
const DefaultTimeout = 30 * time.Minute

// longestGrace is the maximum time between SIGTERM and SIGKILL.
const longestGrace = 10 * time.Second

// Names of the variables that a script gets, after those of its container and its job.
const (
	EnvRoutingKey   = reserved + "ROUTING_KEY"
	EnvSandbox      = reserved + "SANDBOX_NAME"
	EnvRouteGroup   = reserved + "ROUTEGROUP_NAME"
	EnvJob          = reserved + "CONTROL_JOB_NAME"
	EnvOrganisation = reserved + "CONTROL_ORG_NAME"
	EnvAttempt      = reserved + "CONTROL_JOB_ATTEMPT_ID"
)

// theAttempt is the ID of the only attempt of a job; its executions are counted.
const theAttempt = "0"

// InjectAuto is the value of injectRoutingKey with which requests get the routing key.
const InjectAuto = "Auto"

// Ref returns the reference of the present execution of a job.
func Ref(j *crdv1.Job) *jobexecv1.ExecutionRef {
	return &jobexecv1.ExecutionRef{JobUid: string(j.UID), Execution: uint32(max(0, j.Status.Execution.Count))}
}

// Request returns what the runner of a pod gets for the recorded execution of a job. Its group can have changed since; g is the
// zero value if it was deleted.
func Request(j *crdv1.Job, g *crdv1.JobRunnerGroup, c Context) *jobexecv1.RunRequest {
	e := j.Status.Execution
	out := &jobexecv1.RunRequest{
		Ref: Ref(j), Fence: &jobexecv1.Fence{PodUid: e.PodUID},
		JobName: j.Name, Script: j.Spec.Content.Script, Command: j.Spec.Content.Command,
		Timeout: durationpb.New(recorded(j)), Grace: durationpb.New(grace(g)),
		Routing: &jobexecv1.RoutingContext{RoutingKey: c.RoutingKey}, Artifacts: specsOf(j.Spec.Artifacts),
	}
	for _, v := range j.Spec.Env {
		out.Env = append(out.Env, &jobexecv1.Variable{Name: v.Name, Value: v.Value})
	}
	for _, v := range [][2]string{
		{EnvRoutingKey, c.RoutingKey}, {EnvSandbox, c.Sandbox}, {EnvRouteGroup, c.RouteGroup},
		{EnvJob, j.Name}, {EnvOrganisation, j.Annotations[crdv1.AnnotationOrganisation]}, {EnvAttempt, theAttempt},
	} {
		out.Env = append(out.Env, &jobexecv1.Variable{Name: v[0], Value: v[1]})
	}
	if m := j.Spec.TrafficManager; m != nil {
		out.Routing.Inject = m.InjectRoutingKey == InjectAuto && c.RoutingKey != ""
		if out.Routing.Inject {
			out.Routing.CustomHeaders = c.Headers
		}
		out.Routing.TrafficManager = m.Enabled || m.InjectRoutingKey == InjectAuto
	}
	return out
}

// specsOf returns artifacts as runners have them.
func specsOf(all []crdv1.JobArtifact) []*jobexecv1.ArtifactSpec {
	return lists.Map(all, func(a crdv1.JobArtifact) *jobexecv1.ArtifactSpec {
		return &jobexecv1.ArtifactSpec{Path: a.Path, Meta: a.Meta}
	})
}

// Timeout returns how long the script of a job may run: the group's jobExecutionTimeout, or the job's own
// timeout if it is smaller, or the group allows a larger one.
func Timeout(j *crdv1.Job, g *crdv1.JobRunnerGroup) time.Duration {
	own, _ := time.ParseDuration(j.Spec.Timeout)                // Accept has refused another text
	most, err := time.ParseDuration(g.Spec.JobExecutionTimeout) // the group's condition states another text
	if err != nil || most <= 0 {
		most = DefaultTimeout
	}
	if own > 0 && (own < most || g.Spec.AllowIncreaseJobExecutionTimeout) {
		return own
	}
	return most
}

// recorded returns how long the script of the recorded execution of a job may run, whatever its group states now.
func recorded(j *crdv1.Job) time.Duration {
	if t := j.Status.Execution.Timeout; t != nil {
		return t.Duration
	}
	return DefaultTimeout
}

// grace returns the time between SIGTERM and SIGKILL.
func grace(g *crdv1.JobRunnerGroup) time.Duration {
	if g.Spec.PodTemplate == nil || g.Spec.PodTemplate.Spec.TerminationGracePeriodSeconds == nil {
		return longestGrace
	}
	return min(longestGrace, time.Duration(max(0, *g.Spec.PodTemplate.Spec.TerminationGracePeriodSeconds))*time.Second)
}

// Caveats returns statements about an ended job with results that could not be stored, or with requests that should have had the
// routing key, and may not have had it.
func Caveats(j *crdv1.Job) (out []string) {
	e := j.Status.Execution
	if e != nil && e.Output != nil && e.Output.State == crdv1.OutputKept && e.Output.Message != "" {
		out = append(out, e.Output.Message)
	}
	if m := j.Spec.TrafficManager; m == nil || m.InjectRoutingKey != InjectAuto || !targets(j) || e == nil || e.Requests == nil {
		return out
	}
	if e.Requests.WithKey == 0 {
		out = append(out, fmt.Sprintf("The job sent no request with the routing key through the proxy of its pod (without the key: %d), so it may have tested the baseline. "+
			"Use a client that obeys http_proxy or grpc_proxy, or send the key in $%s.", e.Requests.WithoutKey, EnvRoutingKey))
	}
	if e.Requests.Caveat != "" {
		out = append(out, e.Requests.Caveat)
	}
	return out
}

// targets reports whether a job runs against a sandbox or a route group.
func targets(j *crdv1.Job) bool {
	c := j.Spec.RoutingContext
	return c != nil && (c.SandboxName != "" || c.RouteGroupName != "")
}
