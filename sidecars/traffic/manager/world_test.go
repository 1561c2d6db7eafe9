package manager_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/manager"
	"switchyard.dev/sidecars/traffic/ticket"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

const host = "traffic-manager.signadot.svc"

// site is a cluster with a replica of traffic-manager, which has the rights that the chart gives it.
type site struct {
	*world.World
	config    manager.Config
	main      *manager.Main
	stop      func()
	namespace string
	authority *trusttest.Authority
	key       ed25519.PrivateKey
	logs      *background.Output
	conn      *grpc.ClientConn
}

func newSite(t *testing.T, settings ...func(*manager.Config)) *site {
	t.Helper()
	s := &site{World: world.Shared(t), logs: &background.Output{}, authority: trusttest.New(t, "authority")}
	s.namespace = s.NewNamespace("forks")
	s.Accounts(s.namespace, "default", "collector")
	user := "traffic-manager-" + s.namespace
	s.Grant(user, "",
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"forkedworkloads", "trafficcaptures"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		// As all accounts of a cluster have it.
		rbacv1.PolicyRule{NonResourceURLs: []string{"/openid/v1/jwks"}, Verbs: []string{"get"}})
	public, private, err := ed25519.GenerateKey(rand.Reader)
	s.Must(err)
	keys, err := ticket.KeysOf(public)
	s.Must(err)
	access := s.As(user)
	access.QPS = -1
	s.key = private
	s.config = manager.Config{
		REST: access, TicketKeys: func() *ticket.Keys { return &keys },
		Readers: []string{s.namespace + ":collector"}, Always: manager.Elision{RequestHeaders: []string{"x-always"}},
		Store: filepath.Join(t.TempDir(), "store"), StoreBytes: 20 << 20, Replica: "replica-0",
		Address: "127.0.0.1:0", HealthAddress: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(s.logs, nil)),
	}
	for _, set := range settings {
		set(&s.config)
	}
	s.start()
	return s
}

// start starts the replica on its store, and connects to it.
func (s *site) start() {
	s.Helper()
	dir := s.TempDir()
	s.authority.Write(s, dir, s.authority.Leaf(s, host))
	var err error
	c := s.config
	c.TLS, err = trust.Open(trust.Config{Dir: dir, Name: host})
	s.Must(err)
	s.main, err = manager.New(c)
	s.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.main.Run(ctx) }()
	roots := trust.NewRoots("the test")
	s.Must(roots.Set(s.authority.Bundle()))
	s.conn, err = trust.Dial(s.main.Address(), host, roots)
	s.Must(err)
	conn, once := s.conn, false
	s.stop = func() {
		if once {
			return
		}
		once = true
		_ = conn.Close()
		cancel()
		if err := <-done; err != nil {
			s.Errorf("the replica ended with %v", err)
		}
	}
	s.Cleanup(s.stop)
}

// fork creates a fork with one pod, as the operator and Kubernetes do.
func (s *site) fork(name string) *corev1.Pod {
	s.Helper()
	fw := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	fw.Spec.Baseline = crdv1.ObjectRef{Kind: "Deployment", Name: "baseline"}
	s.Create(fw)
	pod := s.deployed(name + "-fork")
	fw.Status.Fork = &crdv1.ForkStatus{ObjectRef: &crdv1.ObjectRef{Kind: "Deployment", Namespace: s.namespace, Name: name + "-fork"}}
	s.Must(s.Client.Status().Update(s.Context(), fw))
	return pod
}

// deployed creates a Deployment with one pod.
func (s *site) deployed(name string) *corev1.Pod {
	s.Helper()
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "main", Image: "main"}}}}
	meta := func(name string, owner metav1.Object, kind string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: labels}
		if owner != nil {
			m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind(kind))}
		}
		return m
	}
	d := &appsv1.Deployment{ObjectMeta: meta(name, nil, ""), Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	s.Create(d)
	set := &appsv1.ReplicaSet{ObjectMeta: meta(name+"-1", d, "Deployment"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	s.Create(set)
	pod := &corev1.Pod{ObjectMeta: meta(name+"-1-x", set, "ReplicaSet"), Spec: template.Spec}
	s.Create(pod)
	return pod
}

// capture creates a TrafficCapture that is attached to pods.
func (s *site) capture(name string, change func(*crdv1.TrafficCapture), pods ...*corev1.Pod) *crdv1.TrafficCapture {
	s.Helper()
	c := &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: crdv1.TrafficCaptureSpec{Sandbox: "sandbox"}}
	if change != nil {
		change(c)
	}
	s.Create(c)
	s.attach(c, pods...)
	return c
}

// attach writes the pods of a capture, as the leader does.
func (s *site) attach(c *crdv1.TrafficCapture, pods ...*corev1.Pod) {
	s.Helper()
	c.Status.Pods, c.Status.RoutingKey = nil, "key"
	for _, p := range pods {
		c.Status.Pods = append(c.Status.Pods, crdv1.CapturedPod{Name: p.Name, UID: p.UID, Workload: "w", Ports: []crdv1.CapturedPort{{Application: 8080, Listening: 25800}}})
	}
	s.Must(s.Client.Status().Update(s.Context(), c))
}

// shows returns a context that shows a token.
func (s *site) shows(token string) context.Context {
	return metadata.AppendToOutgoingContext(s.Context(), "authorization", "Bearer "+token)
}

// container is the traffic container of a pod.
type container struct {
	*site
	pod         *corev1.Pod
	incarnation string
	ctx         context.Context
	end         context.CancelFunc
	attach      trafficv1.Sidecars_AttachClient
	deliver     trafficv1.Sidecars_DeliverClient
	sequence    uint64
}

// container starts the traffic container of a pod.
func (s *site) container(pod *corev1.Pod, incarnation string) *container {
	s.Helper()
	c := &container{site: s, pod: pod, incarnation: incarnation}
	c.ctx, c.end = context.WithCancel(s.shows(s.Token(s.namespace, "default", manager.Audience, pod)))
	s.Cleanup(c.end)
	client := trafficv1.NewSidecarsClient(s.conn)
	s.Eventually("the pod is known as one of a fork", func() (err error) {
		if c.attach, err = client.Attach(c.ctx); err != nil {
			return err
		}
		if _, err = c.attach.Recv(); err == nil {
			err = c.attach.Send(&trafficv1.Applied{Version: 0, Incarnation: incarnation})
		}
		return err
	})
	var err error
	c.deliver, err = client.Deliver(c.ctx)
	s.Must(err)
	return c
}

// applies waits for attachments with n captures, and applies them.
func (c *container) applies(n int) []*trafficv1.Capture {
	c.Helper()
	// The first message of a new stream has the present captures.
	var stream trafficv1.Sidecars_AttachClient
	var now *trafficv1.Attachments
	c.Eventually("the container may attach again", func() (err error) {
		if stream, err = trafficv1.NewSidecarsClient(c.conn).Attach(c.ctx); err == nil {
			now, err = stream.Recv()
		}
		return err
	})
	for {
		if !bytes.Equal(now.GetAuthorities(), c.authority.Bundle()) {
			c.Fatalf("the authorities are %q", now.GetAuthorities())
		}
		c.Must(stream.Send(&trafficv1.Applied{Version: now.GetVersion(), Incarnation: c.incarnation}))
		if len(now.GetCaptures()) == n {
			c.attach = stream
			return now.GetCaptures()
		}
		var err error
		now, err = stream.Recv()
		c.Must(err)
	}
}

// exchange is one of a capture, with a body of a size.
func (c *container) exchange(of *crdv1.TrafficCapture, number uint64, size int) *trafficv1.Exchange {
	return &trafficv1.Exchange{Id: fmt.Sprint(of.Name, c.incarnation, number), CaptureUid: string(of.UID), Pod: "forged", Number: number, Incarnation: c.incarnation,
		Request: &trafficv1.Message{Method: "GET", Target: fmt.Sprint("/", number), Body: make([]byte, size)}}
}

// hands delivers a batch, and returns the refused IDs.
func (c *container) hands(counts *trafficv1.CaptureCounts, all ...*trafficv1.Exchange) []string {
	c.Helper()
	c.sequence++
	b := &trafficv1.Batch{Sequence: c.sequence, Exchanges: all}
	if counts != nil {
		b.Counts = []*trafficv1.CaptureCounts{counts}
	}
	c.Must(c.deliver.Send(b))
	stored, err := c.deliver.Recv()
	c.Must(err)
	if stored.GetSequence() != c.sequence {
		c.Fatalf("batch %d is acknowledged as %d", c.sequence, stored.GetSequence())
	}
	return stored.GetRefused()
}

// ticket returns a context with a ticket for a capture.
func (s *site) ticket(capture string) context.Context {
	s.Helper()
	text, _, err := ticket.Issue(s.key, ticket.Claims{Namespace: s.namespace, Capture: capture, User: "ada"}, time.Now())
	s.Must(err)
	return s.shows(text)
}

// read returns the exchanges of a capture from a cursor, the gap before them, and the cursor after them.
func (s *site) read(capture string, from *trafficv1.Cursor) (all []*trafficv1.Exchange, gap *trafficv1.Gap, next *trafficv1.Cursor) {
	s.Helper()
	stream, err := trafficv1.NewReadersClient(s.conn).Read(s.ticket(capture), &trafficv1.ReadRequest{CaptureNamespace: s.namespace, Capture: capture, From: from})
	s.Must(err)
	gap = &trafficv1.Gap{}
	for current := false; ; {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) && current {
			return all, gap, next
		}
		s.Must(err)
		if next = e.GetNext(); e.GetExchange() != nil {
			all = append(all, e.GetExchange())
		}
		gap.Evicted, current = gap.Evicted+e.GetGap().GetEvicted(), e.GetCurrent()
		if e.GetGap().GetReason() != "" {
			gap.Reason = e.GetGap().GetReason()
		}
	}
}

func (s *site) counts(capture string) *trafficv1.Counts {
	s.Helper()
	counts, err := trafficv1.NewReadersClient(s.conn).Counts(s.ticket(capture), &trafficv1.CountsRequest{CaptureNamespace: s.namespace, Capture: capture})
	s.Must(err)
	sum := counts.GetStored() + counts.GetSampledOut() + counts.GetEvicted() + counts.GetPending()
	for _, n := range counts.GetLost() {
		sum += n
	}
	if sum != counts.GetSeen() {
		s.Errorf("the identity does not hold: %v", counts)
	}
	return counts
}

// fails checks the code of an error.
func (s *site) fails(what string, err error, code codes.Code) {
	s.Helper()
	if status.Code(err) != code {
		s.Errorf("%s: %v, want code %s", what, err, code)
	}
}
