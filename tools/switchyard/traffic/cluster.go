package traffic

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/trust"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/manager"
)

// trafficManager is the program that stores exchanges.
var trafficManager = reach.Target{Name: "traffic manager", Deployment: "traffic-manager", Pods: "app=traffic-manager", Port: 7444, Otherwise: "install the operator with trafficManager.enabled"}

// maxExchange bounds an exchange, in bytes: two bodies of 1 MiB, and headers.
const maxExchange = 8 << 20

// purpose is what a token is needed for.
const purpose = "ticket to read the recording"

// margin is how long before it expires a ticket is replaced.
const margin = time.Minute

// cluster is the traffic manager of a cluster, through port-forwards.
type cluster struct {
	s      *command.Session
	access *rest.Config
	kube   kubernetes.Interface

	mu      sync.Mutex
	tickets map[string]*trafficv1.TicketAnswer
	// roots and name verify the replicas, as the last ticket states.
	roots *trust.Roots
	name  string
}

// open returns the cluster that the user means.
func open(ctx context.Context, s *command.Session) (*cluster, error) {
	access, err := s.Cluster.Rest()
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	c := &cluster{s: s, access: access, kube: kube, roots: trust.NewRoots("the operator"), tickets: map[string]*trafficv1.TicketAnswer{}}
	if _, err = c.replicas(ctx); err != nil { // before anything is written
		return nil, err
	}
	token, err := manager.Token(s, purpose)
	if err == nil {
		_, err = token(ctx, false)
	}
	return c, err
}

// replicas returns the names of the replicas that are ready.
func (c *cluster) replicas(ctx context.Context) ([]string, error) {
	ctx, cancel := c.s.Patiently(ctx)
	defer cancel()
	pods, err := c.s.Cluster.Ready(ctx, c.kube, c.access.Host, trafficManager)
	return lists.Map(pods, func(p corev1.Pod) string { return p.Name }), err
}

// dial connects to a replica until ctx ends, once there is a ticket.
func (c *cluster) dial(ctx context.Context, replica string) (trafficv1.ReadersClient, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.s.Cluster.Namespace, Name: replica}}
	address, err := reach.Forward(ctx, c.kube, c.access, pod, trafficManager.Port)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, err := trust.Dial(address, c.name, c.roots, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxExchange)))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return trafficv1.NewReadersClient(conn), nil
}

// ticket returns a ticket to read a capture.
func (c *cluster) ticket(ctx context.Context, namespace, capture string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := namespace + "/" + capture
	if kept := c.tickets[of]; time.Until(kept.GetExpires().AsTime()) > margin {
		return kept.GetTicket(), nil
	}
	ctx, cancel := c.s.Patiently(ctx)
	defer cancel()
	issuer, err := manager.Connect(ctx, c.s, c.kube, purpose)
	if err != nil {
		return "", err
	}
	with, err := issuer.With(ctx)
	if err != nil {
		return "", err
	}
	answer, err := trafficv1.NewTicketsClient(issuer).Ticket(with, &trafficv1.TicketRequest{CaptureNamespace: namespace, Capture: capture})
	if err == nil {
		err = c.roots.Set(answer.GetAuthority())
	}
	if err == nil {
		c.tickets[of], c.name = answer, answer.GetServerName()
	}
	return answer.GetTicket(), err
}
