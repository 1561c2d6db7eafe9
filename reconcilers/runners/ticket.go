package runners

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/callers/streams"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/workflows/jobexec/ticket"
)

// maxName bounds the name of an object.
const maxName = 253

// Ticket implements jobexecv1.RunnersServer.
//
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=signadot.com,resources=jobs,verbs=get
func (s *server) Ticket(ctx context.Context, r *jobexecv1.TicketRequest) (*jobexecv1.TicketAnswer, error) {
	user, from, job, verbs, leave, err := s.reader(ctx, r.GetJob())
	if err != nil {
		return nil, err
	}
	defer leave()
	stored, failed := s.manifest(ctx, job)
	if stored != nil {
		return &jobexecv1.TicketAnswer{Stored: true, JobUid: string(job.UID), Execution: uint32(stored.Execution)}, nil //nolint:gosec // from 1
	}
	pod, err := s.runnerOf(ctx, job)
	if err != nil {
		return nil, cmp.Or(failed, err)
	}
	authority, err := s.cfg.Keys.Authority()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	issued, expires, err := s.cfg.Keys.Issue(ticket.Claims{PodUID: string(pod.UID), JobUID: string(job.UID), User: user.Name, Verbs: verbs})
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	s.cfg.Logger.Info("a ticket was issued", "user", user.Name, "from", from, "job", job.Name, "pod", pod.Namespace+"/"+pod.Name, "verbs", verbs)
	return &jobexecv1.TicketAnswer{
		Ticket: issued, Expires: timestamppb.New(expires), Authority: authority, JobUid: string(job.UID), Execution: uint32(job.Status.Execution.Count), //nolint:gosec // from 1
		PodNamespace: pod.Namespace, PodName: pod.Name, PodUid: string(pod.UID), PodIp: pod.Status.PodIP,
	}, nil
}

// reader returns the user of a call with the right to read a job, the address, the job, and the verbs of a ticket. leave ends the call.
func (s *server) reader(ctx context.Context, name string) (user identity.User, from string, job *crdv1.Job, verbs []ticket.Verb, leave func(), err error) {
	if user, from, leave, err = s.enterUser(ctx); err != nil {
		return user, from, nil, nil, nil, err
	}
	if name == "" || len(name) > maxName {
		err = status.Error(codes.InvalidArgument, "name the Job that is read")
	} else {
		job, verbs, err = s.permitted(ctx, user, name)
	}
	if err != nil {
		leave()
	}
	return user, from, job, verbs, leave, err
}

// enterUser counts a call of a user, until leave is called.
func (s *server) enterUser(ctx context.Context) (user identity.User, from string, leave func(), err error) {
	token, from, err := streams.Bearer(ctx)
	if err != nil {
		return user, from, nil, err
	}
	user, refused := s.cfg.Users.Identify(ctx, token, from)
	if refused != nil {
		return user, from, nil, refusal(refused)
	}
	leave, err = s.enter(ctx, user.Name, from)
	return user, from, leave, err
}

// permitted returns a job if the user may read it, and the verbs of the ticket. Another user does not
// learn whether there is such a job.
func (s *server) permitted(ctx context.Context, user identity.User, name string) (*crdv1.Job, []ticket.Verb, error) {
	own := slices.Contains(s.cfg.Accounts, user.Name)
	job := &crdv1.Job{}
	no := status.Errorf(codes.PermissionDenied, "%.253s may not read the output of job %.253q, or there is no such job: that takes the right to get pods/log in the namespace of its runner group", user.Name, name)
	if err := s.read(ctx, client.ObjectKey{Name: name}, job); err != nil {
		if own {
			no = status.Errorf(codes.NotFound, "there is no Job %.253q", name)
		}
		return nil, nil, orElse(err, no)
	}
	if own {
		return job, []ticket.Verb{ticket.Read, ticket.Collect}, nil
	}
	namespace := job.Spec.RunnerGroup.Namespace
	if namespace == "" { // which would be all namespaces
		return nil, nil, no
	}
	allowed, err := s.mayReadLogs(ctx, user, namespace)
	if err != nil {
		return nil, nil, err
	}
	if !allowed {
		return nil, nil, no
	}
	return job, []ticket.Verb{ticket.Read}, nil
}

// mayReadLogs reports whether a user has the right to get pods/log in a namespace.
func (s *server) mayReadLogs(ctx context.Context, user identity.User, namespace string) (bool, error) {
	allowed, asked, err := s.cfg.Rights.Allowed(ctx, user, authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Subresource: "log", Namespace: namespace})
	if err != nil {
		s.cfg.Logger.Warn("the API server could not be asked for a right", "user", user.Name, "error", err)
		return false, status.Error(codes.Unavailable, "the API server could not be asked: try again")
	}
	if asked {
		s.cfg.Logger.Info("a right was asked for", "user", user.Name, "right", "get pods/log in namespace "+namespace, "allowed", allowed)
	}
	return allowed, nil
}

// runnerOf returns the pod of the present execution of a job.
func (s *server) runnerOf(ctx context.Context, job *crdv1.Job) (*corev1.Pod, error) {
	e, of := job.Status.Execution, job.Spec.RunnerGroup
	if e == nil || e.PodUID == "" || e.Count < 1 {
		return nil, status.Errorf(codes.FailedPrecondition, "job %s has not begun: it has no output yet", job.Name)
	}
	gone := status.Errorf(codes.NotFound, "the pod in which job %s ran was deleted, and its output with it", job.Name)
	g := &crdv1.JobRunnerGroup{}
	if err := s.read(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, g); err != nil {
		return nil, orElse(err, gone)
	}
	recorded := g.Runner(types.UID(e.PodUID))
	if recorded == nil {
		return nil, gone
	}
	pod := &corev1.Pod{}
	if err := s.read(ctx, client.ObjectKey{Namespace: of.Namespace, Name: recorded.Name}, pod); err != nil {
		return nil, orElse(err, gone)
	}
	if pod.UID != recorded.UID {
		return nil, gone
	}
	if pod.Status.PodIP == "" {
		return nil, status.Errorf(codes.Unavailable, "pod %s/%s of job %s has no address: try again", pod.Namespace, pod.Name, job.Name)
	}
	return pod, nil
}

// codesOf are the codes of refusals.
var codesOf = map[tunnelv1.Reason]codes.Code{
	tunnelv1.Reason_REASON_UNAUTHENTICATED: codes.Unauthenticated,
	tunnelv1.Reason_REASON_EXHAUSTED:       codes.ResourceExhausted,
	tunnelv1.Reason_REASON_UNAVAILABLE:     codes.Unavailable,
}

// refusal returns a refusal as a gRPC status.
func refusal(r *tunnelv1.Refused) error {
	code, is := codesOf[r.GetReason()]
	if !is {
		code = codes.PermissionDenied
	}
	return status.Error(code, r.GetMessage())
}
