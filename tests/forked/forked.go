// Package forked has a cluster with real replicas of traffic-manager and a sandbox with a fork. Tests do what the operator and
// the traffic container of the fork do.
package forked

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"

	"google.golang.org/grpc/metadata"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/manager"
	"switchyard.dev/sidecars/traffic/ticket"
	"switchyard.dev/tests/world"
)

// Host is the name in the certificates of replicas.
const Host = "traffic-manager.signadot.svc"

// Site has a fork of Deployment cart in a namespace of its own.
type Site struct {
	*world.World
	Namespace string
	Pod       *corev1.Pod
	Authority *trusttest.Authority

	configs map[string]manager.Config
	mu      sync.Mutex
	// replicas are addresses.
	replicas map[string]string
}

// New makes a site. Replicas one and two listen at an address, and accept tickets of keys.
func New(w *world.World, authority *trusttest.Authority, keys ticket.Keys, address string) *Site {
	w.Helper()
	s := &Site{World: w, Authority: authority, configs: map[string]manager.Config{}, replicas: map[string]string{}}
	s.Namespace = s.NewNamespace("shop")
	s.Accounts(s.Namespace, "default")
	s.Grant("traffic-manager", "",
		rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"forkedworkloads", "trafficcaptures"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"/openid/v1/jwks"}, Verbs: []string{"get"}})
	access := s.As("traffic-manager")
	access.QPS = -1
	for _, name := range []string{"one", "two"} {
		s.configs[name] = manager.Config{
			REST: access, TicketKeys: func() *ticket.Keys { return &keys },
			Store: filepath.Join(w.TempDir(), "store"), StoreBytes: 20 << 20, Replica: name,
			Address: address + ":0", HealthAddress: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		}
	}
	s.fork()
	return s
}

// Forget removes a replica that has stopped from those that exist.
func (s *Site) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.replicas, name)
}

// Replicas returns the addresses of the replicas that were started, by name.
func (s *Site) Replicas() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.replicas)
}

// fork creates the objects of the fork.
func (s *Site) fork() {
	s.Helper()
	labels := map[string]string{"app": "cart"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "main", Image: "main"}}}}
	meta := func(name string, owner metav1.Object, kind string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: labels}
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
	s.Pod = &corev1.Pod{ObjectMeta: meta("cart-fork-1-x", set, "ReplicaSet"), Spec: template.Spec}
	fw := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "cart-alice"}}
	fw.Spec.Baseline = crdv1.ObjectRef{Kind: "Deployment", Name: "cart"}
	s.Create(s.Pod, fw)
	fw.Status.Fork = &crdv1.ForkStatus{ObjectRef: &crdv1.ObjectRef{Kind: "Deployment", Namespace: s.Namespace, Name: d.Name}}
	s.Must(s.Client.Status().Update(s.Context(), fw))
}

// Start starts a replica on its store. stop stops it.
func (s *Site) Start(name string) (stop func()) {
	s.Helper()
	dir, c := s.TempDir(), s.configs[name]
	s.Authority.Write(s, dir, s.Authority.Leaf(s, Host))
	var err error
	c.TLS, err = trust.Open(trust.Config{Dir: dir, Name: Host})
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

// Created waits for the capture of a recording, and protects it as the operator does.
func (s *Site) Created() *crdv1.TrafficCapture {
	s.Helper()
	var all crdv1.TrafficCaptureList
	s.Eventually("there is a capture", func() error {
		s.List(&all, client.InNamespace(s.Namespace))
		if len(all.Items) != 1 {
			return fmt.Errorf("there are %d", len(all.Items))
		}
		return nil
	})
	c := &all.Items[0]
	world.Edit(s.World, c, func(c *crdv1.TrafficCapture) { c.Finalizers = []string{crdv1.Finalizer} })
	return c
}

// Report writes the status of a capture.
func (s *Site) Report(c *crdv1.TrafficCapture, change func(*crdv1.TrafficCaptureStatus), conditions ...crdv1.StatusCondition) {
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

// Attached names the pod in the status, with a condition Ready.
func (s *Site) Attached(c *crdv1.TrafficCapture, status, message string) {
	s.Helper()
	s.Report(c, func(to *crdv1.TrafficCaptureStatus) {
		to.RoutingKey = "alice"
		to.Pods = []crdv1.CapturedPod{{Name: s.Pod.Name, UID: s.Pod.UID, Workload: "cart-alice", Ports: []crdv1.CapturedPort{{Application: 8080, Listening: 25800}}}}
	}, crdv1.StatusCondition{Type: crdv1.ConditionReady, Status: status, Reason: "Test", Message: message})
}

// Detached does what the operator does when a capture is deleted, once it is.
func (s *Site) Detached(c *crdv1.TrafficCapture) {
	s.Helper()
	s.Eventually("the recording deletes its capture", func() error {
		if err := s.Look(c); err != nil || c.DeletionTimestamp != nil {
			return err
		}
		return fmt.Errorf("it exists")
	})
	s.Report(c, func(to *crdv1.TrafficCaptureStatus) { to.Pods = nil })
	world.Edit(s.World, c, func(c *crdv1.TrafficCapture) { c.Finalizers = nil })
	s.Gone(c)
}

// Deliver delivers exchanges with these numbers to a replica, as the traffic container of the fork.
func (s *Site) Deliver(replica string, c *crdv1.TrafficCapture, seen uint64, numbers ...uint64) {
	s.Helper()
	roots := trust.NewRoots("the test")
	s.Must(roots.Set(s.Authority.Bundle()))
	conn, err := trust.Dial(s.Replicas()[replica], Host, roots)
	s.Must(err)
	defer conn.Close()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(s.Context(), "authorization", "Bearer "+s.Token(s.Namespace, "default", manager.Audience, s.Pod)))
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
