// Package runner connects the control plane to the runners of jobs in a cluster, through the link: the control plane
// requests a connection to the runner of a job (Open, Client), and the agent asks the operator for a ticket with its own
// service account, dials the pod, sends the ticket, and copies bytes (Agent). TLS ends in the control plane and in the
// runner. The control plane itself alone may request such a connection; it checks its users by their roles. The same applies to
// the replicas of traffic-manager (OpenTraffic, traffic.go).
package runner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	discovery "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"switchyard.dev/eventbus/trust"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/workflows/jobexec/layout"
)

// authorityName is the ConfigMap with the operator's authority.
const authorityName = "signadot-authority"

// openWithin bounds the questions and the connection to a runner.
const openWithin = 10 * time.Second

// Config configures an Agent. All fields are required.
type Config struct {
	// Address is that of the operator's service of runners, as host:port; its certificate is for the host.
	Address string
	// TokenFile has the token of the agent's service account, which the kubelet replaces.
	TokenFile string
	// ConfigMaps are those of the operator's namespace.
	ConfigMaps core.ConfigMapInterface
	// Slices are the EndpointSlices of the same namespace.
	Slices discovery.EndpointSliceInterface
	// Record receives a record of each connection.
	Record *slog.Logger
}

// Agent is the agent's end. It is safe for concurrent use.
type Agent struct {
	cfg     Config
	roots   *trust.Roots
	conn    *grpc.ClientConn
	runners jobexecv1.RunnersClient
}

// New returns an Agent, which connects with the first request.
func New(cfg Config) (*Agent, error) {
	roots := trust.NewRoots("ConfigMap " + authorityName)
	conn, err := trust.Dial(cfg.Address, cfg.Address, roots)
	if err != nil {
		return nil, err
	}
	return &Agent{cfg, roots, conn, jobexecv1.NewRunnersClient(conn)}, nil
}

// Close closes the connection to the operator.
func (a *Agent) Close() error { return a.conn.Close() }

// Serve answers one connection that a caller requests, and ends with it or with ctx.
func (a *Agent) Serve(ctx context.Context, in *carrier.Incoming, caller *linkv1.Caller, to *linkv1.Runner) {
	far, t, refused := a.open(ctx, caller, to)
	record := a.cfg.Record.With("job", to.GetJob(), "pod", t.GetPodNamespace()+"/"+t.GetPodName(), "address", t.GetPodIp())
	answer(ctx, in, record, "a runner", far, &linkv1.RunnerTicket{
		Ticket: t.GetTicket(), Expires: t.GetExpires(), Authority: t.GetAuthority(), PodUid: t.GetPodUid(), JobUid: t.GetJobUid(), Execution: t.GetExecution(),
	}, refused)
}

// answer refuses a connection, or sends the ticket and copies the bytes of far until an end closes or ctx ends. Without
// far the other end gets the ticket alone. to names far in the record.
func answer(ctx context.Context, in *carrier.Incoming, record *slog.Logger, to string, far net.Conn, ticket proto.Message, refused *tunnelv1.Refused) {
	if refused != nil {
		record.Info("a connection to "+to+" was refused", "reason", refused.GetReason().String(), "message", refused.GetMessage())
		in.Refuse(refused)
		return
	}
	near, err := in.Accept()
	if err == nil {
		if _, err = protodelim.MarshalTo(near, ticket); err != nil || far == nil {
			_ = near.Close() // the other end reads an end
		}
	}
	if far == nil {
		return
	}
	if err != nil {
		relay.Cut(far)
		return
	}
	record.Info("a connection to " + to + " begins")
	defer context.AfterFunc(ctx, func() { relay.Cut(near); relay.Cut(far) })()
	relay.Pipe(relay.Of(near), relay.Of(far))
	record.Info("a connection to " + to + " has ended")
}

// open returns a connection to a runner, and the ticket for it.
func (a *Agent) open(ctx context.Context, caller *linkv1.Caller, to *linkv1.Runner) (net.Conn, *jobexecv1.TicketAnswer, *tunnelv1.Refused) {
	if caller.GetName() != "" || len(caller.GetRoles()) > 0 {
		return nil, nil, refuse(tunnelv1.Reason_REASON_FORBIDDEN, "Users do not reach runners through the link: read the job in the control plane.")
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	t, err := a.ticket(ctx, to.GetJob())
	if err != nil {
		return nil, nil, refuse(cmp.Or(reasons[status.Code(err)], tunnelv1.Reason_REASON_UNAVAILABLE), "The agent has no ticket for the runner of job %.253q: %s.", to.GetJob(), cmp.Or(status.Convert(err).Message(), err.Error()))
	}
	if want := to.GetPodUid(); want != "" && want != t.GetPodUid() {
		return nil, t, refuse(tunnelv1.Reason_REASON_NOT_FOUND, "Job %.253q runs in pod %s, and no longer in pod %.64s.", to.GetJob(), t.GetPodUid(), want)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(t.GetPodIp(), strconv.Itoa(layout.Port)))
	if err != nil {
		return nil, t, refuse(tunnelv1.Reason_REASON_UNAVAILABLE, "The runner in pod %s/%s is not reached: %s.", t.GetPodNamespace(), t.GetPodName(), err)
	}
	return conn, t, nil
}

// reasons are those of the operator's refusals.
var reasons = map[codes.Code]tunnelv1.Reason{
	codes.NotFound: tunnelv1.Reason_REASON_NOT_FOUND, codes.PermissionDenied: tunnelv1.Reason_REASON_FORBIDDEN,
	codes.Unauthenticated: tunnelv1.Reason_REASON_FORBIDDEN, codes.InvalidArgument: tunnelv1.Reason_REASON_INVALID,
}

func refuse(reason tunnelv1.Reason, format string, args ...any) *tunnelv1.Refused {
	return &tunnelv1.Refused{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// ticket asks the operator for a ticket.
func (a *Agent) ticket(ctx context.Context, job string) (*jobexecv1.TicketAnswer, error) {
	ctx, err := a.shows(ctx)
	if err != nil {
		return nil, err
	}
	return a.runners.Ticket(ctx, &jobexecv1.TicketRequest{Job: job})
}

// shows returns the context of a call of the operator. The authority and the token are read each time: both change.
func (a *Agent) shows(ctx context.Context) (context.Context, error) {
	config, err := a.cfg.ConfigMaps.Get(ctx, authorityName, metav1.GetOptions{})
	if err == nil {
		err = a.roots.Set([]byte(config.Data[trust.BundleFile]))
	}
	if err != nil {
		return nil, fmt.Errorf("the operator's authority: %w", err)
	}
	token, err := os.ReadFile(a.cfg.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("the token of the agent's service account: %w", err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))), nil
}
