package traffic

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/lists"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/manager"
)

// trafficManager is the program that stores exchanges.
var trafficManager = reach.Target{Name: "traffic manager", Deployment: "traffic-manager", Pods: "app=traffic-manager", Port: 7444, Otherwise: "install the operator with trafficManager.enabled"}

// purpose is what a token is needed for.
const purpose = "ticket to read the recording"

// cluster is the traffic manager of a cluster, through port-forwards.
type cluster struct {
	*recording.Tickets
	s      *command.Session
	access *rest.Config
	kube   kubernetes.Interface
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
	c := &cluster{s: s, access: access, kube: kube}
	c.Tickets = recording.NewTickets("the operator", c.ask)
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

// dial is recording.Config.Dial.
func (c *cluster) dial(ctx context.Context, replica string) (trafficv1.ReadersClient, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.s.Cluster.Namespace, Name: replica}}
	address, err := reach.Forward(ctx, c.kube, c.access, pod, trafficManager.Port)
	if err != nil {
		return nil, err
	}
	return c.Dial(ctx, address)
}

// ask asks the operator for a ticket.
func (c *cluster) ask(ctx context.Context, namespace, capture string) (recording.Ticket, error) {
	ctx, cancel := c.s.Patiently(ctx)
	defer cancel()
	issuer, err := manager.Connect(ctx, c.s, c.kube, purpose)
	if err != nil {
		return nil, err
	}
	with, err := issuer.With(ctx)
	if err != nil {
		return nil, err
	}
	return trafficv1.NewTicketsClient(issuer).Ticket(with, &trafficv1.TicketRequest{CaptureNamespace: namespace, Capture: capture})
}
