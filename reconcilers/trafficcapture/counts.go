package trafficcapture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/trust"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/sidecars/traffic/record"
)

// ManagerName is the name of the Service of traffic-manager, and the value of label app of its pods; ManagerPort is its
// port for containers and readers.
const (
	ManagerName = "traffic-manager"
	ManagerPort = 7444
)

// answerWithin is how long a replica is waited for.
const answerWithin = 2 * time.Second

// Replicas asks the replicas of traffic-manager. It implements Receivers, and is safe for concurrent use.
type Replicas struct {
	// Client has the pods of Namespace, which is the operator's.
	Client    client.Reader
	Namespace string
	// Roots are the authorities of its certificates, and TokenFile the token that is shown.
	Roots     *trust.Roots
	TokenFile string

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by address
}

// Counts returns what the replicas know of a capture, merged (merge). Those that do not answer are left out; the error
// is that of one of them if none answers.
func (r *Replicas) Counts(ctx context.Context, namespace, name string) (*trafficv1.Counts, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabels{"app": ManagerName}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", ManagerName, err)
	}
	running := lists.Filter(pods.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && len(p.Status.PodIPs) > 0
	})
	conns, err := r.connect(lists.Map(running, func(p corev1.Pod) string {
		return net.JoinHostPort(p.Status.PodIPs[0].IP, strconv.Itoa(ManagerPort))
	}))
	if err != nil {
		return nil, err
	}
	if len(conns) == 0 {
		return nil, errors.New("no pod of it is running")
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	answers, errs := make([]*trafficv1.Counts, len(conns)), make([]error, len(conns))
	var asking sync.WaitGroup
	for i, conn := range conns {
		asking.Go(func() {
			answers[i], errs[i] = trafficv1.NewReadersClient(conn).Counts(ctx, &trafficv1.CountsRequest{CaptureNamespace: namespace, Capture: name})
			if status.Code(errs[i]) == codes.NotFound { // It has not seen the capture yet.
				answers[i], errs[i] = &trafficv1.Counts{}, nil
			}
		})
	}
	asking.Wait()
	if merged := merge(running, answers); merged != nil {
		return merged, nil
	}
	return nil, errors.New(status.Convert(errs[0]).Message())
}

// merge returns what replicas have answered, with nil for those that have not; nil if none has. Restricts holds if each that has answered, or
// is ready, states so.
func merge(replicas []corev1.Pod, answers []*trafficv1.Counts) *trafficv1.Counts {
	known := lists.Filter(answers, func(c *trafficv1.Counts) bool { return c != nil })
	if len(known) == 0 {
		return nil
	}
	merged := record.Merge(known...)
	merged.Restricts = true
	for i, c := range answers {
		merged.Restricts = merged.Restricts && (c.GetRestricts() || c == nil && !isReady(&replicas[i]))
	}
	return merged
}

// connect returns the connections to these addresses, and closes all others.
func (r *Replicas) connect(addresses []string) (out []*grpc.ClientConn, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.conns
	r.conns = map[string]*grpc.ClientConn{}
	for _, address := range addresses {
		conn := was[address]
		if conn == nil {
			if conn, err = trust.Dial(address, ManagerName+"."+r.Namespace+".svc", r.Roots, door.Show(r.TokenFile)); err != nil {
				break
			}
		}
		delete(was, address)
		r.conns[address] = conn
		out = append(out, conn)
	}
	for _, conn := range was {
		_ = conn.Close()
	}
	return out, err
}
