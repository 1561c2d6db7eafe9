package listeners

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/xds/identify"
	"switchyard.dev/xds/translate"
)

// call is one call of a legitimate caller, over a new connection, like one that begins during the
// attack.
type call func(ctx context.Context) error

// patience is how long an honest call may take.
const patience = 10 * time.Second

// customer is the workload of the pods with the attacked sidecar.
var customer = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}

// get returns calls of a URL over HTTP.
func get(url string) call {
	return checked(&http.Transport{DisableKeepAlives: true, DialContext: from(honestAddress, patience).DialContext}, url, func(a traffic.Answer) error {
		if a.Status != http.StatusOK {
			return fmt.Errorf("status %d", a.Status)
		}
		return nil
	})
}

// checked returns calls of a URL with answers that check accepts.
func checked(transport *http.Transport, url string, check func(traffic.Answer) error) call {
	client := &http.Client{Transport: transport, Timeout: patience}
	return func(ctx context.Context) error {
		a, err := traffic.Get(ctx, client, url)
		if err != nil {
			return err
		}
		return check(a)
	}
}

// fetch gets a path from a listener.
func fetch(path string) func(*World, *Listener) (call, error) {
	return func(w *World, l *Listener) (call, error) { return get("http://" + w.address(l, 0) + path), nil }
}

// askApplication asks the application behind a sidecar.
func askApplication(w *World, l *Listener) (call, error) {
	pod := w.pods[l.Program.Name][0]
	return get("http://" + pod.Status.PodIP + ":8081" + customerPath), nil
}

// dial returns a connection of gRPC from the address of honest callers.
func dial(address string, as credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(as),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return from(honestAddress, patience).DialContext(ctx, "tcp", address)
		}))
}

// lookUp asks the routing API who serves a key.
func lookUp(w *World, l *Listener) (call, error) {
	return func(ctx context.Context) error {
		conn, err := dial(w.address(l, 0), insecure.NewCredentials())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = routingv1.NewRoutingClient(conn).Lookup(ctx, &routingv1.LookupRequest{
			Baseline: &routingv1.Workload{Kind: customer.Kind, Namespace: customer.Namespace, Name: customer.Name}, RoutingKey: "nobody",
		})
		return err
	}, nil
}

// subscribe subscribes to the routes of a workload, as its sidecars do: each on a long-lived
// stream. A pod is allowed to open one every two seconds, so the calls share it and take turns:
// each unsubscribes from the routes and subscribes again.
func subscribe(w *World, l *Listener) (call, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pod := w.pods[sidecar.Name][0]
	token, err := w.token(ctx, pod.Namespace, pod.Spec.ServiceAccountName, identify.Audience, &pod)
	if err != nil {
		return nil, err
	}
	one := &subscriber{address: w.address(l, 0), token: token}
	return one.ask, nil
}

// subscriber is an honest sidecar.
type subscriber struct {
	address, token string

	mu     sync.Mutex
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	end    context.CancelFunc // of the stream
	nonce  string             // of the last answer, which the next request acknowledges
}

// ask subscribes to the routes and returns when they have arrived. When the stream has failed, the
// next call opens another.
func (s *subscriber) ask(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, s.end)()
	err := s.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: translate.RouteType, ResponseNonce: s.nonce, ResourceNamesUnsubscribe: routes(),
	})
	if err = errors.Join(err, s.subscribe()); err != nil {
		s.end()
		s.stream = nil
	}
	return err
}

// routes are the subscribed resources.
func routes() []string { return []string{translate.RouteName(customer)} }

// subscribe subscribes to the routes and waits for them.
func (s *subscriber) subscribe() error {
	err := s.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResourceNamesSubscribe: routes()})
	if err != nil {
		return err
	}
	answer, err := s.stream.Recv()
	s.nonce = answer.GetNonce()
	return err
}

// open opens the stream and subscribes to the routes once, as the first request must.
func (s *subscriber) open() error {
	conn, err := dial(s.address, credentials.NewTLS(attacks.OverTLS()))
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+s.token))
	s.end = func() {
		end()
		_ = conn.Close() // nothing is left to be lost
	}
	if s.stream, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx); err == nil {
		err = s.subscribe()
	}
	if err != nil {
		s.end()
		s.stream = nil
	}
	return err
}

// connectToBus connects to the bus as a route server does.
func connectToBus(w *World, l *Listener) (call, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	token, err := w.token(ctx, "signadot", "routeserver", "eventbus.signadot.svc", &w.pods[routeServer.Name][0])
	if err != nil {
		return nil, err
	}
	return func(context.Context) error {
		conn, err := nats.Connect("nats://"+w.address(l, 0), nats.Token(token), nats.Secure(attacks.OverTLS()), nats.Timeout(patience),
			nats.Dialer(from(honestAddress, patience)), nats.MaxReconnects(0), nats.CustomInboxPrefix("_INBOX.follower"))
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.FlushTimeout(patience)
	}, nil
}

// injected asks the API server for a pod that is to have a sidecar. The pod is not kept.
func injected(w *World, _ *Listener) (call, error) {
	return func(ctx context.Context) error {
		made, err := w.client.CoreV1().Pods(customer.Namespace).Create(ctx, podThatAsks(w.pods[sidecar.Name][0]), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		for _, c := range append(made.Spec.InitContainers, made.Spec.Containers...) {
			if c.Name == devmesh.ContainerName {
				return nil
			}
		}
		return errors.New("the pod has no sidecar")
	}, nil
}

// podThatAsks is a pod as the ReplicaSet of customer makes them.
func podThatAsks(like corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "asks-", Labels: like.Labels, OwnerReferences: like.OwnerReferences,
			Annotations: map[string]string{inject.AnnotationInject: "true"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "app", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		}}},
	}
}

// askForNothing requests a unit that does not exist from the IO context server: that is rejected,
// after all checks for an existing unit. The tokens of pods take turns, as each unit has a separate
// pod. A caller that receives TryAgain retries, as units do.
func askForNothing(w *World, l *Listener) (call, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var tokens []string
	for _, pods := range w.pods {
		for _, pod := range pods {
			token, err := w.token(ctx, pod.Namespace, pod.Spec.ServiceAccountName, iocontext.Audience, &pod)
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, token)
		}
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: from(honestAddress, patience).DialContext,
		TLSClientConfig: attacks.OverTLS(),
	}}
	var turn atomic.Int64
	return func(ctx context.Context) error {
		token := tokens[int(turn.Add(1))%len(tokens)]
		for {
			why, err := refusalOf(ctx, client, "https://"+w.address(l, 0)+"/v1/units/none/none/assignment", token)
			if err != nil || why.Reason == iocontext.NotYours {
				return err
			}
			if why.Reason != iocontext.TryAgain {
				return fmt.Errorf("%s: %s", why.Reason, why.Message)
			}
			if err := wait.For(ctx, 200*time.Millisecond); err != nil {
				return fmt.Errorf("%w: %s", err, why.Message)
			}
		}
	}, nil
}

// refusalOf returns why a request of a pod is refused.
func refusalOf(ctx context.Context, client *http.Client, url, token string) (why iocontext.Refusal, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return why, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(r)
	if err != nil {
		return why, err
	}
	defer answer.Body.Close()
	return why, json.NewDecoder(answer.Body).Decode(&why)
}
