package jobs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobs"
)

var now = time.Date(2026, 11, 30, 8, 0, 20, 0, time.UTC)

const (
	// plain is a valid spec, begun and ran the status of a job that has begun, and of one with a recorded start.
	plain = "{" + content + ", " + in + ", artifacts: [{path: /a}]}"
	given = "execution: {count: 1, podUID: p, containerID: c, begun: true}, runner: {runnerPod: {namespace: shop, name: t-1}}"
	begun = given + ", state: {running: {phase: Starting}}"
	// kept is the status of a job that has succeeded.
	kept = "execution: {count: 1, podUID: p, begun: true, output: {state: Kept}}, runner: {runnerPod: {namespace: shop, name: t-1}}, state: {terminated: {success: true, reason: Succeeded, finishedAt: 2026-11-30T08:00:10Z}}"
	// ended is the status of a job with artifacts that are not complete.
	ended = given + ", state: {terminated: {success: true, reason: Succeeded, finishedAt: 2026-11-30T08:00:10Z}}"
)

// answer reads a Status as JSON in YAML.
func answer(t testing.TB, text string) *jobexecv1.Status {
	t.Helper()
	if text == "" {
		return nil
	}
	document, err := yaml.YAMLToJSON([]byte(text))
	st := &jobexecv1.Status{}
	if err == nil {
		err = protojson.Unmarshal(document, st)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return st
}

// end is an answer about an execution that has ended.
func end(ending string) string {
	return `{phase: TERMINATED, started_at: "2026-11-30T08:00:05Z", finished_at: "2026-11-30T08:00:19Z", artifacts_complete: true, stdout: {total: 7}, ending: {` + ending + "}}"
}

// line is a step in one line.
func line(s jobs.Step) string {
	var out []string
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if st := s.State; st != nil {
		add(st.Waiting != nil, "waiting %s", reason(st.Waiting))
		add(st.Running != nil, "running %s", progress(st.Running))
		if t := st.Terminated; t != nil {
			add(t.Success, "succeeded")
			add(!t.Success, "failed")
			add(t.Canceled, "canceled")
			add(t.TimedOut, "timedOut")
			add(t.Retryable, "retryable")
			add(t.ExitCode != nil, "code %d", value(t.ExitCode))
			add(true, "%s", t.Reason)
		}
	}
	if e := s.Execution; e != nil {
		add(!e.Begun, "executions %d", e.Count)
		add(e.Output != nil, "%s", outputOf(e.Output))
	}
	add(s.Queued, "queued")
	add(s.Follow, "follow")
	add(s.Await, "await")
	add(s.Stop != nil, "stop %s", s.Stop.GetCause())
	add(s.Settled, "settled")
	add(s.Drain != "", "drain %s", s.Drain)
	add(s.After > 0, "after %s", s.After)
	return strings.Join(out, " ")
}

func reason(w *crdv1.JobWaiting) string {
	if w == nil {
		return ""
	}
	return w.Reason
}

func progress(r *crdv1.JobRunning) string {
	if r == nil {
		return ""
	}
	out := r.Phase
	if r.StartedAt != nil {
		out += " since " + r.StartedAt.UTC().Format("05")
	}
	if r.Reason != "" {
		out += " (" + r.Reason + ")"
	}
	return out
}

func value(code *int32) int32 {
	if code == nil {
		return 0
	}
	return *code
}

func outputOf(o *crdv1.JobOutput) string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("output %s %d", o.State, o.Stdout)
}

// podWith returns the pod of the execution, in this form.
func podWith(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if !strings.HasPrefix(text, "metadata") {
		text = "metadata: {namespace: shop, name: t-1, uid: p}\n" + text
	}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

const oom = "status: {containerStatuses: [{name: main, containerID: c2, state: {running: {}}, lastState: {terminated: {reason: OOMKilled, exitCode: 137, containerID: c}}}]}"

func TestNext(t *testing.T) {
	for name, tt := range map[string]struct {
		spec, status, answer, pod string
		retries                   string
		deleted, resting          bool
		gone, refused, unknown    bool
		dropped, released         bool
		stored, storing           bool
		silent, invalid           string
		// quiet is since when the pod has been silent, and sent the recorded timeout; 0: none is.
		quiet, sent time.Duration
		// group is "", "none" or "deleted".
		group   string
		context jobs.Context
		// since is how long ago the answer came.
		since time.Duration
		want  string
	}{
		"a new job":                                            {want: "queued"},
		"an invalid job":                                       {spec: "{content: {}, " + in + "}", want: "failed InvalidSpec settled"},
		"its group does not exist":                             {group: "none", want: "waiting RunnerGroupNotFound"},
		"its group is deleted":                                 {group: "deleted", want: "failed RunnerGroupDeleted settled"},
		"its sandbox is not ready":                             {context: jobs.Context{Waits: &jobs.Why{Reason: "SandboxNotReady"}}, want: "waiting SandboxNotReady"},
		"its sandbox is deleted":                               {context: jobs.Context{Ended: &jobs.Why{Reason: "SandboxDeleted"}}, want: "failed SandboxDeleted settled"},
		"canceled before it begins":                            {spec: "{" + content + ", " + in + ", canceled: true}", want: "failed canceled Canceled settled"},
		"deleted before it begins":                             {deleted: true, want: ""},
		"at rest before it begins":                             {resting: true, deleted: true, status: "state: {waiting: {reason: NoIdlePod}}", want: "waiting NoIdlePod"},
		"its group is at rest":                                 {resting: true, group: "deleted", status: "state: {waiting: {reason: NoIdlePod}}", want: "waiting NoIdlePod"},
		"begun, without an answer":                             {status: begun, want: "running Starting follow"},
		"it runs, and has not started":                         {status: begun, answer: "{phase: RUNNING}", want: "running Starting follow"},
		"it runs for a second":                                 {status: begun, answer: `{phase: RUNNING, started_at: "2026-11-30T08:00:19Z"}`, want: "running Starting follow after 1s"},
		"it runs for longer":                                   {status: begun, answer: `{phase: RUNNING, started_at: "2026-11-30T08:00:18Z"}`, want: "running Running since 18 follow"},
		"it runs, which is recorded":                           {status: given + ", state: {running: {phase: Running, startedAt: 2026-11-30T08:00:01Z}}", answer: `{phase: RUNNING, started_at: "2026-11-30T08:00:18Z"}`, want: "running Running since 01 follow"},
		"it succeeds":                                          {status: begun, answer: end("known: true"), want: "succeeded code 0 Succeeded output Kept 7 settled"},
		"its artifacts are not complete":                       {status: begun, answer: `{phase: TERMINATED, started_at: "2026-11-30T08:00:05Z", ending: {known: true}}`, want: "running Starting follow after 1s"},
		"its pod is deleted before its artifacts are complete": {gone: true, status: begun, answer: `{phase: TERMINATED, started_at: "2026-11-30T08:00:05Z", ending: {known: true}}`, want: "succeeded code 0 Succeeded"},
		"its artifacts take longer":                            {since: time.Second, status: begun, answer: `{phase: TERMINATED, started_at: "2026-11-30T08:00:05Z", ending: {known: true}}`, want: "succeeded code 0 Succeeded"},
		"it fails":                                             {status: begun, answer: end("known: true, exit_code: 3"), want: "failed code 3 ScriptFailed output Kept 7 settled"},
		"it ends by a signal":                                  {status: begun, answer: end("known: true, exit_code: 139, signal: 11"), want: "failed code 139 ScriptKilled output Kept 7 settled"},
		"its interpreter is missing":                           {status: begun, answer: `{phase: TERMINATED, artifacts_complete: true, ending: {known: true, exit_code: 127, reason: InterpreterMissing}}`, want: "failed code 127 InterpreterMissing output Kept 0 settled"},
		"code 0 with a reason":                                 {status: begun, answer: end("known: true, reason: OutOfMemory"), want: "failed code 0 OutOfMemory output Kept 7 settled"},
		"its time is over":                                     {status: begun, answer: end("known: true, exit_code: 143, signal: 15, timed_out: true, reason: TimedOut"), want: "failed timedOut code 143 TimedOut output Kept 7 settled"},
		"its time is over, with code 0":                        {status: begun, answer: end("known: true, timed_out: true"), want: "failed timedOut code 0 TimedOut output Kept 7 settled"},
		"processes stay":                                       {status: begun, answer: end("known: true, leftover: true"), want: "succeeded code 0 Succeeded output Kept 7 settled drain Leftover"},
		"canceled while it runs":                               {spec: "{" + content + ", " + in + ", canceled: true}", status: begun, answer: `{phase: RUNNING, started_at: "2026-11-30T08:00:19Z"}`, want: "running Stopping (Canceled) follow stop CANCELED after 1s"},
		"canceled, and stopped":                                {spec: "{" + content + ", " + in + ", canceled: true}", status: begun, answer: end("known: true, exit_code: 143, signal: 15, canceled: true, reason: Canceled"), want: "failed canceled code 143 Canceled output Kept 7 settled"},
		"canceled, after it succeeded":                         {spec: "{" + content + ", " + in + ", canceled: true}", status: begun, answer: end("known: true"), want: "succeeded code 0 Succeeded output Kept 7 settled"},
		"canceled before it could begin":                       {spec: "{" + content + ", " + in + ", canceled: true}", status: begun, answer: "{phase: TERMINATED, artifacts_complete: true, ending: {known: true, canceled: true}}", want: "failed canceled Canceled output Kept 0 settled"},
		"deleted while it runs":                                {deleted: true, status: begun, want: "running Stopping (Deleted) follow stop DELETED"},
		"uninstalled while it runs":                            {deleted: true, resting: true, status: begun, want: "running Stopping (OperatorUninstalled) follow stop CAUSE_UNSPECIFIED"},
		"its sandbox is deleted while it runs":                 {context: jobs.Context{Ended: &jobs.Why{Reason: "SandboxDeleted"}}, status: begun, want: "running Stopping (SandboxDeleted) follow stop SANDBOX_GONE"},
		"its sandbox was deleted, and it stopped":              {context: jobs.Context{Ended: &jobs.Why{Reason: "SandboxDeleted"}}, status: begun, answer: end("known: true, exit_code: 143, canceled: true"), want: "failed code 143 SandboxDeleted output Kept 7 settled"},
		"its sandbox is not ready while it runs":               {context: jobs.Context{Waits: &jobs.Why{Reason: "SandboxNotReady"}}, status: begun, want: "running Starting follow"},
		"its group is deleted while it runs":                   {group: "deleted", status: begun, want: "running Stopping (RunnerGroupDeleted) follow stop CAUSE_UNSPECIFIED"},
		"the pod cannot begin it":                              {refused: true, status: begun, want: "running Starting follow stop CAUSE_UNSPECIFIED"},
		"the pod began it after that":                          {refused: true, status: begun, answer: "{phase: RUNNING}", want: "running Starting follow"},
		"the pod refuses it":                                   {invalid: "why", status: begun, want: "failed InvalidSpec executions 1 settled"},
		"the pod refuses it, and it is canceled":               {invalid: "why", spec: "{" + content + ", " + in + ", canceled: true}", status: begun, want: "running Stopping (Canceled) follow stop CANCELED"},
		"the pod never began it":                               {refused: true, status: begun, answer: "{phase: TERMINATED, ending: {known: true, canceled: true}}", want: "waiting NotBegun drain Failed"},
		"another pod never began it":                           {refused: true, status: strings.Replace(begun, "count: 1", "count: 2", 1), answer: "{phase: TERMINATED, ending: {known: true, canceled: true}}", want: "waiting NotBegun executions 1 drain Failed"},
		"the pod does not answer yet":                          {silent: "refused", quiet: time.Second, status: begun, want: "running Starting follow after 4s"},
		"the pod does not answer":                              {silent: "refused", quiet: 20 * time.Second, status: begun, want: "running Starting (PodSilent) follow after 31m50s"},
		"a long script has a silent pod, and less time now":    {silent: "refused", quiet: 30 * time.Minute, sent: 2 * time.Hour, status: begun, want: "running Starting (PodSilent) follow after 1h32m10s"},
		"… and has been silent for longer":                     {silent: "refused", quiet: 123 * time.Minute, sent: 2 * time.Hour, status: begun, want: "failed retryable PodSilent output Lost 0 settled drain Failed"},
		"its artifacts are awaited from a silent pod":          {silent: "refused", quiet: 10 * time.Second, status: strings.Replace(ended, "08:00:10", "07:00:10", 1), want: "succeeded Succeeded follow after 1m50s"},
		"the pod answers again":                                {status: given + ", state: {running: {phase: Starting, reason: PodSilent}}", want: "running Starting follow"},
		"the pod has not answered until long after":            {silent: "refused", quiet: 33 * time.Minute, status: begun, want: "failed retryable PodSilent output Lost 0 settled drain Failed"},
		"its pod is deleted":                                   {gone: true, status: begun, want: "failed retryable PodDeleted output Lost 0 settled"},
		"its pod is deleted after its end":                     {gone: true, status: begun, answer: end("known: true"), want: "succeeded code 0 Succeeded output Kept 7 settled"},
		"its pod has failed":                                   {pod: "status: {phase: Failed, reason: Evicted}", status: begun, want: "failed retryable PodEnded output Lost 0 settled"},
		"its pod is terminated":                                {status: begun, answer: end("known: true, exit_code: 143, signal: 15, reason: PodTerminated, message: m"), want: "failed retryable code 143 PodTerminated output Kept 7 settled"},
		"its pod is terminated, and it may run again":          {retries: "1", status: begun, answer: end("known: true, exit_code: 143, signal: 15, reason: PodTerminated, message: m"), want: "waiting Retry executions 1"},
		"the executor is lost":                                 {pod: "status: {}", since: time.Second, status: begun, answer: end("reason: ExecutorLost"), want: "running Starting follow after 4s"},
		"the executor is lost for good":                        {pod: "status: {}", since: 5 * time.Second, status: begun, answer: end("reason: ExecutorLost"), want: "failed retryable ExecutorLost output Kept 7 settled"},
		"the runner has no record of it":                       {pod: "status: {}", since: 5 * time.Second, status: begun, answer: "{phase: TERMINATED, artifacts_complete: true, dropped: why, ending: {reason: ExecutorLost}}", want: "failed retryable ExecutorLost output Lost 0 settled"},
		"out of memory":                                        {pod: oom, since: time.Second, status: begun, answer: end("reason: ExecutorLost"), want: "failed OutOfMemory output Kept 7 settled"},
		"another container was out of memory":                  {pod: strings.ReplaceAll(oom, "containerID: c}", "containerID: c1}"), since: time.Minute, status: begun, answer: end("reason: ExecutorLost"), want: "failed retryable ExecutorLost output Kept 7 settled"},
		"lost, and it may run again":                           {gone: true, retries: "1", status: begun, want: "waiting Retry executions 1"},
		"lost for the second time":                             {gone: true, retries: "1", status: strings.Replace(begun, "count: 1", "count: 2", 1), want: "failed retryable PodDeleted output Lost 0 settled"},
		"lost, and canceled":                                   {gone: true, retries: "1", spec: "{" + content + ", " + in + ", canceled: true}", status: begun, want: "failed canceled Canceled output Lost 0 settled"},
		"it waits to run again":                                {status: "state: {waiting: {reason: Retry}}, execution: {count: 1}", want: "waiting Retry executions 1 queued"},
		"it has ended":                                         {status: kept, want: "succeeded Succeeded output Kept 0 settled"},
		"it has ended, and is canceled":                        {spec: "{" + content + ", " + in + ", canceled: true}", status: kept, want: "succeeded Succeeded output Kept 0 settled"},
		"its artifacts are awaited":                            {status: ended, want: "succeeded Succeeded follow"},
		"its artifacts are complete":                           {status: ended, answer: end("known: true"), want: "succeeded Succeeded output Kept 7 settled"},
		"its artifacts are lost":                               {status: ended, gone: true, want: "succeeded Succeeded output Lost 0 settled"},
		"its artifacts are not known":                          {status: ended, unknown: true, want: "succeeded Succeeded output Lost 0 settled"},
		"its artifacts are awaited in vain":                    {status: ended, silent: "refused", quiet: 2 * time.Minute, want: "succeeded Succeeded output Lost 0 settled drain Failed"},
		"its results are read":                                 {status: kept, answer: "{phase: TERMINATED, released: true}", want: "succeeded Succeeded output Released 0 settled"},
		"its pod waits until they are read":                    {status: kept, pod: "metadata: {namespace: shop, name: t-1, uid: p, annotations: {signadot.com/draining: JobEnded}}", want: "succeeded Succeeded output Kept 0 follow await settled"},
		"its results are dropped":                              {status: kept, pod: "metadata: {namespace: shop, name: t-1, uid: p, annotations: {signadot.com/draining: JobEnded, signadot.com/job-results-dropped: why}}", want: "succeeded Succeeded output Lost 0 settled"},
		"its results made space":                               {status: kept, dropped: true, want: "succeeded Succeeded output Lost 0 settled"},
		"its results made space, as its runner answers":        {status: kept, answer: "{phase: TERMINATED, released: true, dropped: why}", want: "succeeded Succeeded output Lost 0 settled"},
		"its results were read, and are dropped after that":    {status: strings.Replace(kept, "state: Kept", "state: Released", 1), dropped: true, want: "succeeded Succeeded output Released 0 settled"},
		"its results were read, in a pod for other jobs":       {status: kept, released: true, want: "succeeded Succeeded output Kept 0 settled"},
		"… that is deleted":                                    {status: kept, released: true, gone: true, want: "succeeded Succeeded output Released 0 settled"},
		"… that does not know them any more":                   {status: kept, released: true, unknown: true, want: "succeeded Succeeded output Released 0 settled"},
		"… that gets no other job":                             {status: kept, released: true, pod: "metadata: {namespace: shop, name: t-1, uid: p, annotations: {signadot.com/draining: JobEnded}}", want: "succeeded Succeeded output Released 0 settled"},
		"its results were dropped, not read":                   {status: kept, released: true, dropped: true, gone: true, want: "succeeded Succeeded output Lost 0 settled"},
		"its results are in the bucket, and in their pod":      {status: kept, stored: true, want: "succeeded Succeeded output Kept 0 settled"},
		"… and their pod is deleted":                           {status: kept, stored: true, gone: true, want: "succeeded Succeeded output Stored 0 settled"},
		"… and their pod gets no other job":                    {status: kept, stored: true, pod: "metadata: {namespace: shop, name: t-1, uid: p, annotations: {signadot.com/draining: JobEnded}}", want: "succeeded Succeeded output Stored 0 settled"},
		"… and made space":                                     {status: kept, stored: true, dropped: true, want: "succeeded Succeeded output Stored 0 settled"},
		"the bucket may have them":                             {status: kept, storing: true, gone: true, want: "succeeded Succeeded output Kept 0 settled"},
		"… and they wait for it":                               {status: kept, storing: true, pod: "metadata: {namespace: shop, name: t-1, uid: p, annotations: {signadot.com/draining: JobEnded}}", want: "succeeded Succeeded output Kept 0 follow await settled"},
		"… and they were released":                             {status: kept, storing: true, answer: "{phase: TERMINATED, released: true}", want: "succeeded Succeeded output Kept 0 settled"},
		"its results are lost":                                 {status: kept, gone: true, want: "succeeded Succeeded output Lost 0 settled"},
		"it ended before it began":                             {status: "state: {terminated: {reason: InvalidSpec}}", want: "failed InvalidSpec settled"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tt.spec
			if spec == "" {
				spec = plain
			}
			j := job(t, spec, tt.status)
			j.Annotations = map[string]string{crdv1.AnnotationRetries: tt.retries}
			in := jobs.Input{Job: j, Context: tt.context, Rests: tt.resting, Now: now, Runner: jobs.Runner{
				Gone: tt.gone, Refused: tt.refused, Unknown: tt.unknown, Dropped: tt.dropped, Released: tt.released, Stored: tt.stored, Storing: tt.storing, Silent: tt.silent, Invalid: tt.invalid, SilentSince: now.Add(-tt.quiet), Status: answer(t, tt.answer), Since: now.Add(-tt.since),
			}}
			if tt.group != "none" {
				in.Group = &crdv1.JobRunnerGroup{}
			}
			if tt.group == "deleted" {
				in.Group.DeletionTimestamp = &metav1.Time{Time: now}
			}
			if tt.deleted {
				j.DeletionTimestamp = &metav1.Time{Time: now}
			}
			if tt.pod != "" {
				in.Runner.Pod = podWith(t, tt.pod)
			}
			if tt.sent > 0 {
				j.Status.Execution.Timeout = &metav1.Duration{Duration: tt.sent}
			}
			before := j.DeepCopy()
			s := jobs.Next(in)
			if got := line(s); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
			if tt.status == kept && tt.gone && !tt.released && !tt.stored && !tt.storing && !strings.Contains(s.Execution.Output.Message, "unless they were read before") {
				t.Error("they may have been read:", s.Execution.Output.Message)
			}
			if diff := cmp.Diff(before, j); diff != "" {
				t.Error("the input has changed:", diff)
			}
			if st := s.State; st != nil && st.Terminated != nil && tt.status != "" && st.Terminated.FinishedAt == nil && !strings.Contains(tt.status, "InvalidSpec") {
				t.Error("it has no end")
			}
		})
	}
}

// What a runner adds to a success is in the message of the job.
func TestASuccessHasTheRemarkOfItsRunner(t *testing.T) {
	for remark, want := range map[string]string{"": "The script exited with code 0.", "the rest is lost": "The script exited with code 0; the rest is lost."} {
		st := answer(t, end("known: true"))
		st.Ending.Message = remark
		s := jobs.Next(jobs.Input{Job: job(t, plain, begun), Group: &crdv1.JobRunnerGroup{}, Now: now, Runner: jobs.Runner{Status: st}})
		if got := s.State.Terminated; got == nil || !got.Success || got.Message != want {
			t.Errorf("%q: %+v", remark, got)
		}
	}
}

// Results that could not be stored in the bucket are stated until they are, by one write: the text of an error can vary. A loss has
// that reason too.
func TestABucketThatIsAwayIsStated(t *testing.T) {
	j := job(t, plain, kept)
	for _, step := range []struct {
		what, want string
		runner     jobs.Runner
	}{
		{"one attempt has failed", "Kept ", jobs.Runner{Storing: true}},
		{"two have", "Kept Output and artifacts could not be stored in the bucket of the operator: full.", jobs.Runner{Storing: true, Unstored: "full"}},
		{"another reason", "Kept Output and artifacts could not be stored in the bucket of the operator: full.", jobs.Runner{Storing: true, Unstored: "away"}},
		{"another leader", "Kept Output and artifacts could not be stored in the bucket of the operator: full.", jobs.Runner{Storing: true}},
		{"its pod is deleted, and the bucket may have them", "Kept Output and artifacts could not be stored in the bucket of the operator: full.", jobs.Runner{Storing: true, Unstored: "away", Gone: true}},
		{"its pod is deleted", "Lost Pod shop/t-1 has them no longer. They are lost, unless they were read before. Output and artifacts could not be stored in the bucket of the operator: full.", jobs.Runner{Gone: true}},
		{"it made space", "Lost They were deleted in pod shop/t-1, before they were read, for a later job that needed the space. Output and artifacts could not be stored in the bucket of the operator: full.", jobs.Runner{Dropped: true}},
		{"they were read", "Released Output and artifacts could not be stored in the bucket of the operator: full.", jobs.Runner{Released: true, Gone: true}},
		{"they are stored", "Kept ", jobs.Runner{Stored: true}},
		{"their pod is deleted", "Stored ", jobs.Runner{Stored: true, Gone: true}},
	} {
		s := jobs.Next(jobs.Input{Job: j, Group: &crdv1.JobRunnerGroup{}, Now: now, Runner: step.runner})
		o := s.Execution.Output
		if got := o.State + " " + o.Message; got != step.want || !s.State.Terminated.Success {
			t.Errorf("%s: %q\nwant %q", step.what, got, step.want)
		}
		if o.State == crdv1.OutputKept {
			j.Status.Execution = s.Execution
			caveats := jobs.Caveats(j)
			if want := o.Message; (want == "") != (len(caveats) == 0) || want != "" && caveats[0] != want {
				t.Errorf("%s: %q", step.what, caveats)
			}
		}
	}
}

// A status states until when the bucket has the results of a job.
func TestResultsInTheBucketHaveAnEnd(t *testing.T) {
	for stored, want := range map[time.Duration]string{0: "<nil>", time.Hour: "2026-11-30 09:00:19 +0000 UTC"} {
		s := jobs.Next(jobs.Input{Job: job(t, plain, begun), Group: &crdv1.JobRunnerGroup{}, Now: now, Stored: stored, Runner: jobs.Runner{Status: answer(t, end("known: true"))}})
		if got := fmt.Sprint(s.Execution.Output.StoredUntil); got != want {
			t.Errorf("%s: %s, want %s", stored, got, want)
		}
	}
}
