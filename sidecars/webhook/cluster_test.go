package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/authority"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

const registrationName = "signadot-mutating-webhook-configuration"

// cluster is a real API server with etcd, of the test's own.
type cluster struct{ *world.World }

func newCluster(t *testing.T) *cluster {
	t.Helper()
	// As in any cluster, pods get the token of their service account.
	k := &cluster{world.Bare(t, "disable-admission-plugins=")}
	k.Namespaces("signadot", "shop")
	k.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "meshed", Labels: map[string]string{inject.AnnotationInject: "true"}}})
	for _, ns := range []string{"signadot", "shop", "meshed"} {
		k.Accounts(ns, "default")
	}
	return k
}

// register creates the webhook configuration, as the chart does, but for an
// address in place of a Service, which this cluster has no network for.
func (k *cluster) register(address string) {
	k.Helper()
	hook := func(name, path string) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{
			Name:                    name,
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:           new(admissionregistrationv1.Ignore),
			ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
			TimeoutSeconds:          new(int32(2)),
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new("https://" + address + path)},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}
	}
	byPod := hook("sidecar-injector.signadot.com", PathPods)
	byNamespace := hook("namespace-sidecar-injector.signadot.com", PathNamespacePods)
	byNamespace.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{inject.AnnotationInject: "true"}}
	k.Create(&admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: registrationName},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{byPod, byNamespace},
	})
}

func (k *cluster) bundle() []*x509.Certificate {
	k.Helper()
	var found admissionregistrationv1.MutatingWebhookConfiguration
	if err := k.Client.Get(k.Context(), client.ObjectKey{Name: registrationName}, &found); err != nil {
		k.Fatal(err)
	}
	var all []*x509.Certificate
	for rest := found.Webhooks[0].ClientConfig.CABundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		k.Must(err)
		all = append(all, cert)
	}
}

// pod creates one in a namespace and reports whether it came with a sidecar.
func (k *cluster) pod(namespace, name string, annotations map[string]string) (*corev1.Pod, bool) {
	k.Helper()
	pod := customer(name, annotations)
	pod.Namespace = namespace
	k.Create(pod)
	return pod, slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == devmesh.ContainerName })
}

// eventuallyInjected creates pods until one comes with a sidecar: the API
// server takes a moment to see a new configuration.
func (k *cluster) eventuallyInjected(prefix string) *corev1.Pod {
	k.Helper()
	for i, deadline := 0, time.Now().Add(30*time.Second); time.Now().Before(deadline); i++ {
		if pod, injected := k.pod("shop", fmt.Sprintf("%s-%d", prefix, i), asks()); injected {
			return pod
		}
		<-time.After(100 * time.Millisecond)
	}
	k.Fatal("no pod came with a sidecar for 30 s")
	return nil
}

func (k *cluster) injector(address string) *Injector {
	k.Helper()
	into := testInject()
	into.TLS = true
	injector, err := New(Config{
		REST:    k.As(""),
		Inject:  into,
		Address: address,
		Certs: authority.Config{Every: 50 * time.Millisecond, Roots: trust.NewRoots("the keeper's"),
			Policy: authority.Policy{Hosts: []string{"127.0.0.1", "localhost"}}},
		Log: slog.New(slog.DiscardHandler),
	})
	k.Must(err)
	return injector
}

// start runs an Injector; stop ends it and returns its result.
func (k *cluster) start(i *Injector) (stop func()) {
	k.Helper()
	stop = background.Run(k, i.Start)
	k.Eventually("the webhook is ready", func() error { return i.Ready(nil) })
	return stop
}

// flaky is a client of an API server that cannot be reached now and then.
type flaky struct {
	client.Client
	away   atomic.Bool
	failed atomic.Int32
}

func (f *flaky) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if f.away.Load() {
		f.failed.Add(1)
		return errors.New("the API server is away")
	}
	return f.Client.Get(ctx, key, o, options...)
}

// Readiness removes the replica from the webhook's Service, and pods that are created then come
// without a sidecar.
func TestACertificateThatIsServedStaysReadyWhileTheAPIServerIsAway(t *testing.T) {
	k := newCluster(t)
	api := &flaky{Client: k.Client}
	api.away.Store(true)
	keeper, err := authority.NewKeeper(authority.Config{
		Client: api, Every: 10 * time.Millisecond, Policy: authority.Policy{Hosts: []string{"127.0.0.1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, keeper.Run)
	looks := func() {
		from := api.failed.Load()
		k.Eventually("it has looked in vain", func() error {
			if api.failed.Load() < from+2 {
				return errors.New("not yet")
			}
			return nil
		})
	}
	looks()
	if keeper.Ready() == nil {
		t.Error("it is ready without ever having had a certificate")
	}
	api.away.Store(false)
	k.Eventually("the certificate is served", keeper.Ready)
	api.away.Store(true)
	looks()
	if err := keeper.Ready(); err != nil {
		t.Errorf("with a certificate of 24 hours: %v", err)
	}
}

func TestPodsOfARealCluster(t *testing.T) {
	k := newCluster(t)
	injector := k.injector("127.0.0.1:0")
	if injector.NeedLeaderElection() {
		t.Fatal("the webhook would serve on the leader alone")
	}
	stop := k.start(injector)
	defer stop()
	address := injector.Addr()
	k.register(address)

	pod := k.eventuallyInjected("first")
	if got := pod.Annotations[inject.AnnotationProcessed]; got != inject.Injected || len(pod.Spec.InitContainers) != 2 {
		t.Errorf("processed %q, init containers %+v", got, pod.Spec.InitContainers)
	}
	if policy := pod.Spec.InitContainers[0].RestartPolicy; policy == nil || *policy != corev1.ContainerRestartPolicyAlways {
		t.Error("this cluster has native sidecars, and the sidecar is none")
	}
	expectTokens(t, pod)
	expectTrust(t, pod, k.bundle())
	if pod, injected := k.pod("shop", "silent", nil); injected || len(pod.Annotations) != 0 {
		t.Errorf("a pod that did not ask: injected %v, annotations %v", injected, pod.Annotations)
	}
	if _, injected := k.pod("meshed", "by-namespace", nil); !injected {
		t.Error("a pod of a namespace that asks came without a sidecar")
	}
	if _, injected := k.pod("meshed", "both-ask", asks()); !injected {
		t.Error("a pod that both webhooks see came without a sidecar")
	}
	if pod, injected := k.pod("signadot", "own", asks()); injected || pod.Annotations[inject.AnnotationProcessed] == "" {
		t.Errorf("a pod of our own namespace: injected %v, annotations %v", injected, pod.Annotations)
	}

	k.expectLimitRange()
	expectNoHTTP2(t, address)
	k.forgetBundle()
	k.Eventually("the bundle is published again", func() error {
		if len(k.bundle()) != 1 {
			return errors.New("no bundle")
		}
		return injector.Ready(nil)
	})
	k.eventuallyInjected("again")

	stop()
	if _, injected := k.pod("shop", "stopped", asks()); injected {
		t.Error("a stopped webhook injected")
	}
	silent, err := net.Listen("tcp", address) // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	if _, injected := k.pod("shop", "black-holed", asks()); injected {
		t.Error("a webhook that does not answer injected")
	}
	if err := silent.Close(); err != nil {
		t.Fatal(err)
	}

	// Another replica takes up the Secret that the first has left.
	defer k.start(k.injector(address))()
	if pod := k.eventuallyInjected("another"); pod == nil || len(k.bundle()) != 1 {
		t.Error("another replica began anew")
	}
}

// expectLimitRange checks that the API server accepts a pod with the sidecar in a namespace with a
// LimitRange below the chart's resources, once its annotation sets smaller ones.
func (k *cluster) expectLimitRange() {
	k.Helper()
	k.Namespaces("small")
	k.Accounts("small", "default")
	most := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	k.Create(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "small", Name: "small"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: most}}}})
	k.Eventually("the chart's resources are refused", func() error {
		pod := customer("", asks())
		pod.Namespace, pod.GenerateName = "small", "usual-"
		if err := k.Client.Create(k.Context(), pod, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "usage per Container") {
			return fmt.Errorf("the API server did not refuse the chart's resources: %w", err)
		}
		return nil
	})
	annotations := asks()
	annotations[inject.AnnotationResources] = "limits.cpu=1,limits.memory=256Mi"
	pod, injected := k.pod("small", "sized", annotations)
	if !injected || pod.Spec.InitContainers[0].Resources.Limits.Memory().String() != "256Mi" {
		k.Errorf("with the annotation: injected %v, %+v", injected, pod.Spec.InitContainers)
	}
	annotations[inject.AnnotationResources] = "limits.memory=8Gi"
	if pod, injected := k.pod("small", "out-of-bounds", annotations); injected || !strings.Contains(pod.Annotations[inject.AnnotationProcessed], "more than 4Gi") {
		k.Errorf("out of bounds: injected %v, %v", injected, pod.Annotations)
	}
}

// expectTrust checks that a sidecar trusts those that are published.
func expectTrust(t *testing.T, pod *corev1.Pod, published []*x509.Certificate) {
	t.Helper()
	for _, v := range pod.Spec.InitContainers[0].Env {
		if v.Name != devmesh.EnvTrust {
			continue
		}
		certs, err := trust.ReadBundle([]byte(v.Value))
		if err != nil || len(certs) != len(published) || !certs[0].Equal(published[0]) {
			t.Errorf("the sidecar trusts %d authorities, and %d are published: %v", len(certs), len(published), err)
		}
		return
	}
	t.Error("the sidecar trusts nobody")
}

// expectTokens checks that the application has the token for the API, and what we
// add to its pod has not.
func expectTokens(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	projected := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		projected[v.Name] = v.Projected != nil
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount"
		})
		if has := at >= 0 && projected[c.VolumeMounts[at].Name]; has != (c.Name == "app") {
			t.Errorf("container %s has the token for the API: %v", c.Name, has)
		}
	}
}

// expectNoHTTP2 checks that the only protocol offered is HTTP/1.1, which has costs bounded by
// the number of connections.
func expectNoHTTP2(t *testing.T, address string) {
	t.Helper()
	for protocol, want := range map[string]bool{"h2": false, "http/1.1": true} {
		dialer := tls.Dialer{Config: &tls.Config{NextProtos: []string{protocol}, InsecureSkipVerify: true}}
		c, err := dialer.DialContext(t.Context(), "tcp", address)
		if (err == nil) != want {
			t.Errorf("a client that speaks %s: %v", protocol, err)
		}
		if err == nil {
			err = c.Close()
		} else if !strings.Contains(err.Error(), "protocol") {
			t.Errorf("refused for another reason: %v", err)
		}
		if want && err != nil {
			t.Error(err)
		}
	}
}

// forgetBundle empties the caBundles, as a helm upgrade may.
func (k *cluster) forgetBundle() {
	k.Helper()
	k.Eventually("the bundle is emptied", func() error {
		var found admissionregistrationv1.MutatingWebhookConfiguration
		if err := k.Client.Get(k.Context(), client.ObjectKey{Name: registrationName}, &found); err != nil {
			return err
		}
		for i := range found.Webhooks {
			found.Webhooks[i].ClientConfig.CABundle = nil
		}
		return k.Client.Update(k.Context(), &found)
	})
}

func TestAnAuthorityChangesUnderARealCluster(t *testing.T) {
	k := newCluster(t)
	clock := &clock{ahead: -15*24*time.Hour - time.Hour}
	injector, err := New(Config{
		REST: k.As(""), Inject: testInject(), Address: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		Certs: authority.Config{Every: 20 * time.Millisecond, Now: clock.Now,
			Policy: authority.Policy{Settle: time.Minute, Hosts: []string{"127.0.0.1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.start(injector)()
	k.register(injector.Addr())
	k.Eventually("the first authority is published", k.holds(1))
	first := k.bundle()[0]

	clock.set(0) // half of its life is over
	k.Eventually("the next is announced beside it", k.holds(2))
	k.eventuallyInjected("announced")
	signer := func() *x509.Certificate {
		cert, err := injector.keeper.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, authority := range k.bundle() {
			if cert.Leaf.CheckSignatureFrom(authority) == nil {
				return authority
			}
		}
		t.Fatal("the served certificate is of an authority that is not published")
		return nil
	}
	if !signer().Equal(first) {
		t.Error("the next authority signs as soon as it is announced")
	}
	clock.set(2 * time.Minute) // it has been published for long enough
	k.Eventually("the next signs", func() error {
		if signer().Equal(first) {
			return errors.New("the first still does")
		}
		return nil
	})
	if pod := k.eventuallyInjected("promoted"); pod.Name != "promoted-0" {
		t.Errorf("the change of the authority cost the sidecar of %s and before", pod.Name)
	}
	if err := k.holds(2)(); err != nil {
		t.Error("the first is not trusted any more while its leaf may be served: ", err)
	}
}

func (k *cluster) holds(n int) func() error {
	return func() error {
		if got := len(k.bundle()); got != n {
			return fmt.Errorf("%d authorities published, want %d", got, n)
		}
		return nil
	}
}

func TestReplicasAgreeOnOneAuthority(t *testing.T) {
	k := newCluster(t)
	k.register("127.0.0.1:1")
	var keepers []*authority.Keeper
	for range 5 {
		keeper, err := authority.NewKeeper(authority.Config{Client: k.Client, Policy: authority.Policy{Hosts: []string{"127.0.0.1"}}})
		if err != nil {
			t.Fatal(err)
		}
		keepers = append(keepers, keeper)
	}
	var all sync.WaitGroup
	for _, keeper := range keepers {
		all.Go(func() {
			if err := keeper.Ensure(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	trusted := k.bundle()
	if len(trusted) != 1 {
		t.Fatalf("%d authorities published", len(trusted))
	}
	for _, keeper := range keepers {
		if cert, err := keeper.Certificate(nil); err != nil || cert.Leaf.CheckSignatureFrom(trusted[0]) != nil {
			t.Errorf("a replica serves a certificate of another authority (%v)", err)
		}
	}
}

// clock is the time of day, moved.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) set(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = ahead
}
