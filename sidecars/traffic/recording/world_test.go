package recording_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/manager"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/sidecars/traffic/ticket"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

const host = "traffic-manager.signadot.svc"

// site is a cluster with two real replicas of traffic-manager, and a sandbox with a fork of Deployment cart. The test
// does what the operator and the traffic container do.
type site struct {
	*world.World
	ns        string
	pod       *corev1.Pod
	authority *trusttest.Authority
	key       ed25519.PrivateKey
	configs   map[string]manager.Config
	user      client.Client

	mu       sync.Mutex
	replicas map[string]string // addresses
	notes    []string
	got      []*trafficv1.Exchange
	workload string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{World: world.Shared(t), authority: trusttest.New(t, "authority"), configs: map[string]manager.Config{}, replicas: map[string]string{}}
	s.ns = s.NewNamespace("shop")
	s.Accounts(s.ns, "default")
	s.Grant("traffic-manager", "",
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"forkedworkloads", "trafficcaptures"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"/openid/v1/jwks"}, Verbs: []string{"get"}})
	s.Grant("ada", "",
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"trafficcaptures"}, Verbs: []string{"create", "get", "patch", "delete"}})
	s.user = s.ClientWith(s.As("ada"), func() (*runtime.Scheme, error) { return s.Client.Scheme(), nil })
	public, private, err := ed25519.GenerateKey(rand.Reader)
	s.Must(err)
	keys, err := ticket.KeysOf(public)
	s.Must(err)
	s.key = private
	access := s.As("traffic-manager")
	access.QPS = -1
	for _, name := range []string{"one", "two"} {
		s.configs[name] = manager.Config{
			REST: access, TicketKeys: func() *ticket.Keys { return &keys },
			Store: filepath.Join(t.TempDir(), "store"), StoreBytes: 20 << 20, Replica: name,
			Address: "127.0.0.1:0", HealthAddress: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		}
	}
	s.sandbox()
	return s
}

// sandbox creates the objects of a sandbox and its fork.
func (s *site) sandbox() {
	s.Helper()
	s.Make(&crdv1.SignadotSandbox{}, "metadata: {name: "+s.ns+"}\nspec: {id: alice, customization: {patches: [{strategic: {}, target: {apiVersion: apps/v1, kind: Deployment, namespace: "+s.ns+", name: cart}}]}}")
	labels := map[string]string{"app": "cart"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "main", Image: "main"}}}}
	meta := func(name string, owner metav1.Object, kind string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: labels}
		if owner != nil {
			m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind(kind))}
		}
		return m
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	d := &appsv1.Deployment{ObjectMeta: meta("cart-fork", nil, ""), Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	s.Create(d)
	set := &appsv1.ReplicaSet{ObjectMeta: meta("cart-fork-1", d, "Deployment"), Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}
	s.Create(set)
	s.pod = &corev1.Pod{ObjectMeta: meta("cart-fork-1-x", set, "ReplicaSet"), Spec: template.Spec}
	fw := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "cart-alice"}}
	fw.Spec.Baseline = crdv1.ObjectRef{Kind: "Deployment", Name: "cart"}
	s.Create(s.pod, fw)
	fw.Status.Fork = &crdv1.ForkStatus{ObjectRef: &crdv1.ObjectRef{Kind: "Deployment", Namespace: s.ns, Name: d.Name}}
	s.Must(s.Client.Status().Update(s.Context(), fw))
}

// start starts a replica on its store. stop stops it.
func (s *site) start(name string) (stop func()) {
	s.Helper()
	dir, c := s.TempDir(), s.configs[name]
	s.authority.Write(s, dir, s.authority.Leaf(s, host))
	var err error
	c.TLS, err = trust.Open(trust.Config{Dir: dir, Name: host})
	s.Must(err)
	main, err := manager.New(c)
	s.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- main.Run(ctx) }()
	s.mu.Lock()
	s.replicas[name] = main.Address()
	s.mu.Unlock()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.Errorf("replica %s ended with %v", name, err)
		}
	})
	s.Cleanup(stop)
	return stop
}

// config reaches the replicas without port-forwards.
func (s *site) config() recording.Config {
	return recording.Config{
		Client: s.user,
		Replicas: func(context.Context) (names []string, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for name := range s.replicas {
				names = append(names, name)
			}
			return names, nil
		},
		Dial: func(ctx context.Context, replica string) (trafficv1.ReadersClient, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			roots := trust.NewRoots("the test")
			if err := roots.Set(s.authority.Bundle()); err != nil {
				return nil, err
			}
			conn, err := trust.Dial(s.replicas[replica], host, roots)
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			return trafficv1.NewReadersClient(conn), err
		},
		Ticket: func(_ context.Context, namespace, capture string) (string, error) {
			text, _, err := ticket.Issue(s.key, ticket.Claims{Namespace: namespace, Capture: capture, User: "ada"}, time.Now())
			return text, err
		},
		Each: func(x *trafficv1.Exchange, workload string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got, s.workload = append(s.got, x), workload
			return nil
		},
		Note: func(text string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notes = append(s.notes, text)
		},
	}
}

// noted returns the notes, and the targets of the exchanges in their order.
func (s *site) noted() (notes, targets []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.got {
		targets = append(targets, x.GetRequest().GetTarget())
	}
	slices.Sort(targets)
	return slices.Clone(s.notes), targets
}

// created waits for the capture of a recording, and protects it as the operator does.
func (s *site) created() *crdv1.TrafficCapture {
	s.Helper()
	var all crdv1.TrafficCaptureList
	s.Eventually("there is a capture", func() error {
		s.List(&all, client.InNamespace(s.ns))
		if len(all.Items) != 1 {
			return fmt.Errorf("there are %d", len(all.Items))
		}
		return nil
	})
	c := &all.Items[0]
	world.Edit(s.World, c, func(c *crdv1.TrafficCapture) { c.Finalizers = []string{crdv1.Finalizer} })
	return c
}

// report writes the status of a capture.
func (s *site) report(c *crdv1.TrafficCapture, change func(*crdv1.TrafficCaptureStatus), conditions ...crdv1.StatusCondition) {
	s.Helper()
	s.Eventually("the status can be written", func() error {
		if err := s.Look(c); err != nil {
			return err
		}
		for i := range conditions {
			conditions[i].ObservedGeneration, conditions[i].LastTransitionTime = c.Generation, metav1.Now()
		}
		c.Status.Conditions = conditions
		change(&c.Status)
		return s.Client.Status().Update(s.Context(), c)
	})
}

// attached names the pod in the status, with a condition Ready.
func (s *site) attached(c *crdv1.TrafficCapture, status, message string) {
	s.Helper()
	s.report(c, func(to *crdv1.TrafficCaptureStatus) {
		to.RoutingKey = "alice"
		to.Pods = []crdv1.CapturedPod{{Name: s.pod.Name, UID: s.pod.UID, Workload: "cart-alice", Ports: []crdv1.CapturedPort{{Application: 8080, Listening: 25800}}}}
	}, crdv1.StatusCondition{Type: crdv1.ConditionReady, Status: status, Reason: "Test", Message: message})
}

// detached does what the operator does when a capture is deleted, once it is.
func (s *site) detached(c *crdv1.TrafficCapture) {
	s.Helper()
	s.Eventually("the recording deletes its capture", func() error {
		if err := s.Look(c); err != nil || c.DeletionTimestamp != nil {
			return err
		}
		return fmt.Errorf("it exists")
	})
	s.report(c, func(to *crdv1.TrafficCaptureStatus) { to.Pods = nil })
	world.Edit(s.World, c, func(c *crdv1.TrafficCapture) { c.Finalizers = nil })
	s.Gone(c)
}

// deliver delivers exchanges with these numbers to a replica, as the traffic container of the fork.
func (s *site) deliver(replica string, c *crdv1.TrafficCapture, seen uint64, numbers ...uint64) {
	s.Helper()
	roots := trust.NewRoots("the test")
	s.Must(roots.Set(s.authority.Bundle()))
	conn, err := trust.Dial(s.replicas[replica], host, roots)
	s.Must(err)
	defer conn.Close()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(s.Context(), "authorization", "Bearer "+s.Token(s.ns, "default", manager.Audience, s.pod)))
	defer cancel()
	sidecars := trafficv1.NewSidecarsClient(conn)
	b := &trafficv1.Batch{Sequence: 1, Counts: []*trafficv1.CaptureCounts{{CaptureUid: string(c.UID), Seen: seen, Delivered: uint64(len(numbers)), Lost: map[string]uint64{"memory": 1}}}}
	for _, n := range numbers {
		b.Exchanges = append(b.Exchanges, &trafficv1.Exchange{Id: fmt.Sprint("x", n), CaptureUid: string(c.UID), Number: n, Incarnation: "i",
			Request: &trafficv1.Message{Method: "GET", Target: fmt.Sprint("/", n)}, Response: &trafficv1.Message{Status: 200}})
	}
	s.Eventually("replica "+replica+" stores exchanges", func() error {
		attach, err := sidecars.Attach(ctx)
		if err != nil {
			return err
		}
		now, err := attach.Recv()
		if err != nil {
			return err
		}
		if len(now.GetCaptures()) != 1 {
			return fmt.Errorf("there are %d captures", len(now.GetCaptures()))
		}
		if err := attach.Send(&trafficv1.Applied{Version: now.GetVersion(), Incarnation: "i"}); err != nil {
			return err
		}
		stream, err := sidecars.Deliver(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(b); err != nil {
			return err
		}
		stored, err := stream.Recv()
		if err == nil && len(stored.GetRefused()) > 0 {
			err = fmt.Errorf("refused: %v", stored.GetRefused())
		}
		return err
	})
}
