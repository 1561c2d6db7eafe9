package chart

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust/authority"
	"switchyard.dev/sidecars/devmesh"
	injecting "switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/webhook"
	"switchyard.dev/tests/background"
)

// atMost is far more than the two seconds that the API server gives the webhook,
// and less than the ten that it would give it if nothing were said.
const atMost = 8 * time.Second

// createsPodsWhateverTheWebhookDoes has the chart's configuration lead to a real
// webhook, works it, and breaks it in one way after the other.
func (s apiServer) createsPodsWhateverTheWebhookDoes(t *testing.T) {
	address := s.leadToThisMachine(t)
	// What the API server does not know of as broken it may still have connections
	// to: each way begins with a webhook that works.
	ways := []struct {
		sentence string
		breaks   func(t *testing.T)
	}{
		{"stopped", func(*testing.T) {}},
		{"deaf: it takes connections and says nothing", func(t *testing.T) {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() }) // The kernel takes them; nobody accepts.
		}},
		{"serving a certificate that is over", func(t *testing.T) {
			s.runInjector(t, address, -25*time.Hour)
		}},
	}
	for _, way := range ways {
		t.Run(way.sentence, func(t *testing.T) {
			stop := s.runInjector(t, address, 0)
			s.eventually(t, "pods that ask are injected", func() error { return s.create1(t, "shop", true) })
			s.explainsConfinedPods(t)
			stop()
			way.breaks(t)
			before := s.passedOver(t)
			const pods = 10
			var all sync.WaitGroup
			for range pods {
				all.Go(func() {
					if err := s.create1(t, "shop", false); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := s.passedOver(t) - before; got != pods {
				t.Errorf("of %d pods, for %d the webhook was tried and passed over", pods, got)
			}
		})
	}
}

// leadToThisMachine installs the chart's webhook configuration and a Service of
// the name in it that leads to an address here, which it gives.
func (s apiServer) leadToThisMachine(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	config := as[registrationv1.MutatingWebhookConfiguration](t, mustRender(t, "").find("MutatingWebhookConfiguration", "", webhookConfiguration))
	for i := range config.Webhooks {
		config.Webhooks[i].ClientConfig.Service.Port = new(int32(port))
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: config.Webhooks[0].ClientConfig.Service.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	for _, o := range []client.Object{service, &config} {
		if err := s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "webhook-server-cert"}}
		for _, o := range []client.Object{service, &config, secret} {
			// The test's own context has ended by now.
			if err := s.Delete(context.Background(), o); err != nil {
				t.Error(err)
			}
		}
	})
	return address
}

// runInjector runs the webhook with its clock set ahead, until stop is called or
// the test ends, and waits until it is ready.
func (s apiServer) runInjector(t *testing.T, address string, ahead time.Duration) (stop func()) {
	t.Helper()
	injector, err := webhook.New(webhook.Config{
		REST: s.config, Inject: injectConfig(), Address: address, Log: slog.New(slog.DiscardHandler),
		Certs: authority.Config{Every: 100 * time.Millisecond, Now: func() time.Time { return time.Now().Add(ahead) }},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = background.Run(t, injector.Start)
	s.eventually(t, "the webhook is ready", func() error { return injector.Ready(nil) })
	return stop
}

func injectConfig() injecting.Config {
	return injecting.Config{Sidecar: injecting.Container{Image: "sidecar"}, Redirect: injecting.Container{Image: "redirect"}}.WithDefaults()
}

// owned is a pod that asks, of the Deployment customer.
func owned(ns string) *corev1.Pod {
	out := pod(map[string]string{inject: "true"})
	out.Namespace, out.GenerateName = ns, "customer-7d9f-"
	out.Labels = map[string]string{"pod-template-hash": "7d9f"}
	out.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "customer-7d9f", UID: "u", Controller: new(true)}}
	out.Spec.ServiceAccountName = "default"
	return &out
}

// create1 creates a pod that asks, and says if that fails, takes as long as it
// must not, or returns the pod in another form than is wanted.
func (s apiServer) create1(t *testing.T, ns string, injected bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	made := owned(ns)
	if err := s.Create(ctx, made, client.DryRunAll); err != nil {
		return err
	}
	got := slices.ContainsFunc(made.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == devmesh.ContainerName })
	if got != injected {
		return fmt.Errorf("a pod that asks has a sidecar: %v", got)
	}
	return nil
}

// explainsConfinedPods checks that a pod where pod security is enforced is let in,
// with the reason for which it has no sidecar.
func (s apiServer) explainsConfinedPods(t *testing.T) {
	t.Helper()
	s.eventually(t, "a pod where pod security is enforced has the reason", func() error {
		made := owned("confined")
		if err := s.Create(t.Context(), made, client.DryRunAll); err != nil {
			return err
		}
		if reason := made.Annotations[injecting.AnnotationProcessed]; !strings.Contains(reason, podSecurity) {
			return fmt.Errorf("%s: %q", injecting.AnnotationProcessed, reason)
		}
		return nil
	})
}

// passedOver returns for how many calls the API server tried the webhook in vain.
func (s apiServer) passedOver(t *testing.T) (calls int) {
	t.Helper()
	asks, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := asks.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, "apiserver_admission_webhook_fail_open_count{") {
			n, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
			calls += n
			if err != nil {
				t.Fatal(errors.Join(err, errors.New(line)))
			}
		}
	}
	return calls
}
