package agent_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/controlplane-link/agent"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/runner"
	"switchyard.dev/eventbus/trust"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/ticket"
)

// runs creates a group with a real runner, which is enrolled at the service, and returns its pod.
func (s *site) runs(t *testing.T, of *runners.Service) *corev1.Pod {
	t.Helper()
	g := &crdv1.JobRunnerGroup{}
	s.Make(g, "metadata: {namespace: "+s.namespace+", name: tests}\nspec: {image: i}")
	s.Accounts(s.namespace, "default")
	var pod *corev1.Pod
	r := runners.New(t, runners.At(of.Address, of.CA, func(string) string { return s.Token(s.namespace, "default", layout.Audience, pod) }))
	pod = s.RunPod(runners.Pod(g, "one"), corev1.PodStatus{Phase: corev1.PodRunning, PodIP: r.IP, PodIPs: []corev1.PodIP{{IP: r.IP}}})
	g.Status.Runners = []crdv1.RunnerPod{of.Record(g, pod)}
	s.Must(s.Client.Status().Update(s.Context(), g))
	r.Start(string(pod.UID))
	return pod
}

// job creates a job in its first execution in a pod.
func (s *site) job(name string, in types.UID) *crdv1.Job {
	s.Helper()
	j := &crdv1.Job{}
	s.Make(j, "metadata: {name: "+s.namespace+"-"+name+"}\nspec: {canceled: false, content: {command: [x]}, runnerGroup: {namespace: "+s.namespace+", name: tests}}")
	j.Status.Execution = &crdv1.JobExecution{Count: 1, PodUID: string(in), Begun: true}
	s.Must(s.Client.Status().Update(s.Context(), j))
	return j
}

// runJob runs a job in a pod, as the Job controller does, and returns the state of the runner.
func (s *site) runJob(of *runners.Service, pod *corev1.Pod, j *crdv1.Job) (*jobexecv1.RunnerStatus, error) {
	authority, err := of.Keys.Authority()
	s.Must(err)
	c, err := client.New(client.Runner{
		Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(layout.Port)), PodUID: string(pod.UID), Authority: authority,
		Ticket: func(context.Context) (string, time.Time, error) {
			return of.Keys.Issue(ticket.Claims{PodUID: string(pod.UID), JobUID: ticket.AnyJob, User: "controller", Verbs: []ticket.Verb{ticket.Run}})
		},
	})
	s.Must(err)
	defer c.Close() //nolint:errcheck // of a test
	state, err := c.ExecutorClient.Runner(s.Context(), &jobexecv1.RunnerRequest{})
	if err != nil {
		return nil, errors.Join(err, c.Refusal())
	}
	_, err = c.ExecutorClient.Run(s.Context(), &jobexecv1.RunRequest{
		Ref: &jobexecv1.ExecutionRef{JobUid: string(j.UID), Execution: 1}, Fence: state.GetFence(),
		JobName: j.Name, Command: []string{"/bin/sh", "-c", "echo hello from the job"},
	})
	return state, err
}

// TestRunnersAreReachedThroughTheLink has the real service of runners, agent and link, and a real runner. The
// control plane reads its output with TLS of its own.
func TestRunnersAreReachedThroughTheLink(t *testing.T) {
	t.Cleanup(runners.Clean)
	var tokenFile string
	w := world.Shared(t)
	operator := w.NewNamespace("operator")
	service := runners.Serve(w, operator, "system:serviceaccount:"+operator+":signadot-agent")
	s := siteIn(t, w, func(a *agent.Settings) { a.Runners, tokenFile = service.Address, a.AccountTokenFile })
	s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: "signadot-authority"}, Data: map[string]string{trust.BundleFile: service.CA}})
	s.Accounts(operator, "signadot-agent", "other")
	shows := func(account string) {
		s.Must(os.WriteFile(tokenFile, []byte(s.Token(operator, account, "", nil)+"\n"), 0o600))
	}
	shows("signadot-agent")
	pod := s.runs(t, service)
	j, other := s.job("mine", pod.UID), s.job("other", pod.UID)
	s.connected()

	to := &linkv1.Runner{Job: j.Name, PodUid: string(pod.UID)}
	var got *jobexecv1.RunnerStatus
	s.Eventually("the runner answers the Job controller", func() (err error) {
		got, err = s.runJob(service, pod, j)
		return err
	})
	if got.GetFence().GetPodUid() != string(pod.UID) {
		t.Fatalf("%+v", got)
	}
	reader, first, err := runner.Client(t.Context(), s.server, prod, to)
	s.Must(err)
	defer reader.Close() //nolint:errcheck // of a test
	if first.GetJobUid() != string(j.UID) || first.GetExecution() != 1 || first.GetPodUid() != string(pod.UID) {
		t.Errorf("the ticket is %+v", first)
	}
	ref := &jobexecv1.ExecutionRef{JobUid: string(j.UID), Execution: 1}
	var text strings.Builder
	_, err = reader.Logs(t.Context(), &jobexecv1.LogsRequest{Ref: ref, Kind: jobexecv1.LogsRequest_STDOUT, Follow: true}, func(c *jobexecv1.Chunk) error { text.Write(c.GetData()); return nil })
	if err != nil || text.String() != "hello from the job\n" {
		t.Errorf("%q, %v", text.String(), err)
	}
	theirs := &jobexecv1.ExecutionRef{JobUid: string(other.UID), Execution: 1}
	if _, err := reader.ExecutorClient.Artifacts(t.Context(), theirs); err == nil || !strings.Contains(err.Error(), "the ticket is for job") {
		t.Errorf("another job with this ticket: %v", err)
	}
	if _, err := reader.ExecutorClient.Run(t.Context(), &jobexecv1.RunRequest{Ref: ref}); err == nil || !strings.Contains(err.Error(), "the ticket permits") {
		t.Errorf("it runs a script: %v", err)
	}
	s.Eventually("it releases the job, which has ended", func() error {
		_, err := reader.ExecutorClient.Release(t.Context(), ref)
		return err
	})

	for what, c := range map[string]struct {
		caller *linkv1.Caller
		to     *linkv1.Runner
		reason tunnelv1.Reason
		says   string
	}{
		"a user":               {jo, to, tunnelv1.Reason_REASON_FORBIDDEN, "Users do not reach runners"},
		"a job that is none":   {nil, &linkv1.Runner{Job: "missing"}, tunnelv1.Reason_REASON_NOT_FOUND, "no Job"},
		"another pod":          {nil, &linkv1.Runner{Job: j.Name, PodUid: "other"}, tunnelv1.Reason_REASON_NOT_FOUND, "no longer in pod other"},
		"a job without a name": {nil, &linkv1.Runner{}, tunnelv1.Reason_REASON_INVALID, "name the Job"},
	} {
		s.refusesRunner(t, what, c.caller, c.to, c.reason, c.says)
	}
	shows("other")
	s.refusesRunner(t, "an agent with another account", nil, to, tunnelv1.Reason_REASON_FORBIDDEN, "may not read the output")
	if log := s.log.String(); strings.Contains(log, first.GetTicket()) || !strings.Contains(log, `"msg":"a connection to a runner begins"`) || !strings.Contains(log, "Users do not reach runners") {
		t.Error("the log has the ticket, or lacks the records")
	}
}

// refusesRunner expects the refusal of a connection to a runner.
func (s *site) refusesRunner(t *testing.T, what string, caller *linkv1.Caller, to *linkv1.Runner, reason tunnelv1.Reason, says string) {
	t.Helper()
	conn, _, err := runner.Open(t.Context(), as{s, caller}, prod, to)
	refused := &carrier.RefusedError{}
	if !errors.As(err, &refused) || refused.Refused.GetReason() != reason || !strings.Contains(refused.Refused.GetMessage(), says) {
		t.Errorf("%s: %v, %v", what, conn, err)
	}
}

// as opens connections for a caller.
type as struct {
	*site
	caller *linkv1.Caller
}

// Open implements runner.Opener.
func (a as) Open(ctx context.Context, c registry.Cluster, open *linkv1.Open) (net.Conn, error) {
	open.Caller = a.caller
	return a.server.Open(ctx, c, open)
}
