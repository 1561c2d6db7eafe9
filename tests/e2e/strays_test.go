package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/traffic"
	"switchyard.dev/tools/demo"
)

// TestNoKeyStraysToTheBaselineOfItsMember deletes the member of a routing key, and the namespace of
// that member, while requests with this key are sent: none may reach the member's baseline.
// STRAYS_ROUNDS is how often each is deleted: `make strays` sets 20.
func TestNoKeyStraysToTheBaselineOfItsMember(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("STRAYS_ROUNDS")) // none: one
	s := newStrays(t)
	for range max(rounds, 1) {
		for _, change := range []struct {
			name string
			make func()
		}{
			{"the member is deleted", s.deleteMember},
			{"the namespace is deleted and created again", s.renewNamespace},
		} {
			t.Run(change.name, func(t *testing.T) {
				s.t = t
				change.make()
			})
		}
	}
	s.t = t
	figures.Told(os.Stdout, "STRAYS_KEYED_AT_BASELINE", s.strayed, fmt.Sprintf("of %d keyed requests", s.sent), "0", s.strayed == 0)
}

// strays is a workload in a namespace of its own, and a sandbox that forks it. The sandbox's name is
// the namespace's, and the routing key.
type strays struct {
	*world
	name string
	// service is the address of the workload's Service, which changes with the namespace.
	service atomic.Value

	sent, strayed int
}

func newStrays(t *testing.T) *strays {
	s := &strays{world: newWorld(t), name: "e2e-strays"}
	s.customer = demo.CustomerSender("http://" + s.name)
	s.customer.Client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.service.Load().(string))
		},
	}}
	s.applyBaseline()
	s.removeAfter("namespace", s.name)
	s.apply(s.sandboxManifest())
	s.removeAfter("signadotsandbox", s.name)
	s.settle()
	return s
}

func (s *strays) sandboxManifest() string {
	return strings.ReplaceAll(sandboxManifest(s.name, "desk"), `"namespace":"hotrod"`, fmt.Sprintf(`"namespace":%q`, s.name))
}

// workload is a Deployment of HotROD's customer service. Its pods have the label app.
func (s *strays) workload(name, app string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q,"namespace":%[3]q},
"spec":{"selector":{"matchLabels":{"app":%[2]q,"of":%[1]q}},"template":{
  "metadata":{"labels":{"app":%[2]q,"of":%[1]q},"annotations":{"sidecar.signadot.com/inject":"true"}},
  "spec":{"automountServiceAccountToken":false,"containers":[{"name":"hotrod","image":"switchyard.dev/hotrod:dev","imagePullPolicy":"IfNotPresent",
    "args":["customer","--fix-db-query-delay=20ms","--fix-disable-db-conn-mutex"],
    "env":[{"name":"OTEL_TRACES_SAMPLER","value":"always_off"}],"ports":[{"name":"http","containerPort":8081}],
    "readinessProbe":{"tcpSocket":{"port":8081},"periodSeconds":2},
    "resources":{"requests":{"cpu":"10m","memory":"32Mi"},"limits":{"memory":"128Mi"}}}]}}}}`, name, app, s.name)
}

// applyBaseline makes the namespace, the baseline and its Service, and finds the Service.
func (s *strays) applyBaseline() {
	s.t.Helper()
	s.apply(fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, s.name))
	s.apply(fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"desk","namespace":%q},
"spec":{"selector":{"app":"desk"},"ports":[{"name":"http","port":8081,"targetPort":8081,"appProtocol":"http"}]}}`, s.name))
	s.service.Store(strings.TrimPrefix(s.url(s.name, "desk", 8081), "http://"))
	s.apply(s.workload("desk", "desk"))
}

func (s *strays) apply(manifest string) {
	s.t.Helper()
	s.kubectl(manifest, "apply", "-f", "-")
}

// settle waits until the sandbox is Ready and the fork serves its key.
func (s *strays) settle() {
	s.t.Helper()
	s.kubectl("", "wait", "signadotsandbox/"+s.name, "--for=condition=Ready", "--timeout=120s")
	s.eventually("the fork serves its key", 60*time.Second, func() error { return s.serves(s.name, traffic.Fork) })
}

// keyed sends requests with the key while a change is made and until the fork serves it again. None
// may be served by the baseline; requests fail while there is no fork.
func (s *strays) keyed(change func()) {
	s.t.Helper()
	stop, done := make(chan struct{}), make(chan *traffic.Ledger)
	go func() {
		done <- s.customer.Rate(s.t.Context(), 50, []traffic.Want{{Key: s.name, Side: traffic.Fork}}, stop)
	}()
	defer func() {
		close(stop)
		ledger := <-done
		s.sent, s.strayed = s.sent+ledger.Sent, s.strayed+ledger.WrongCount
		s.t.Logf("%d keyed requests: %d by the fork, %d failed, %d by the baseline", ledger.Sent, ledger.By[traffic.Fork], ledger.FailedCount, ledger.WrongCount)
		if ledger.WrongCount > 0 || ledger.By[traffic.Fork] == 0 {
			s.t.Error(ledger)
		}
	}()
	change()
	s.settle()
}

func (s *strays) deleteMember() {
	before := s.member()
	s.keyed(func() {
		s.kubectl("", "delete", "forkedworkloads", "-n", s.name, "-l", "signadot.com/sandbox="+s.name, "--timeout=60s")
		s.eventually("there is another member", 60*time.Second, func() error {
			if now := s.member(); now == "" || now == before {
				return fmt.Errorf("its UID is %q", now)
			}
			return nil
		})
	})
}

// member returns the UID of the sandbox's member; empty while there is none.
func (s *strays) member() string {
	s.t.Helper()
	return s.kubectl("", "get", "forkedworkloads", "-n", s.name, "-l", "signadot.com/sandbox="+s.name, "-o", "jsonpath={.items[*].metadata.uid}")
}

func (s *strays) renewNamespace() {
	s.keyed(func() {
		s.kubectl("", "delete", "namespace", s.name, "--timeout=120s")
		s.applyBaseline()
	})
}
