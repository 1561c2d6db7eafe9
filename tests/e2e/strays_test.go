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
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
)

// TestNoKeyStraysToTheBaselineOfItsMember deletes the member of a routing key and the namespace of
// that member, adds a canary behind its Service, moves the Service to another workload and back, and
// scales the baseline to zero and back, while requests with this key are sent: none may reach the
// member's baseline. STRAYS_ROUNDS is the number of rounds: `make strays` sets 20.
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
			{"the Service also selects a canary", s.addCanary},
			{"the Service moves to another workload and back", s.moveService},
			{"the baseline is scaled to zero and back", s.scaleToZero},
		} {
			t.Run(change.name, func(t *testing.T) {
				s.t = t
				change.make()
			})
		}
	}
	s.t = t
	figures.Text(os.Stdout, "STRAYS_KEYED_AT_BASELINE", s.strayed, fmt.Sprintf("of %d keyed requests", s.sent), "0", s.strayed == 0)
	figures.Text(os.Stdout, "STRAYS_READY_SECONDS", fmt.Sprintf("%.1f", s.slowest.Seconds()), "at most, until Ready or its caveat was right", "5", s.slowest < 5*time.Second)
}

// strays is a workload in a namespace of its own, and a sandbox that forks it. The sandbox's name is
// the namespace's, and the routing key.
type strays struct {
	*world
	name string
	// service is the address of the workload's Service, which changes with the namespace.
	service atomic.Value

	sent, strayed int
	// slowest is the longest time until Ready of the sandbox, or its caveat, was right after a change.
	slowest time.Duration
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

// customerArgs and otherArgs start HotROD services that listen on port 8081. The other one does not answer
// requests for a customer, so these count as failed and not as answered by the baseline.
const (
	customerArgs = `"customer","--fix-db-query-delay=20ms","--fix-disable-db-conn-mutex"`
	otherArgs    = `"route","--route-service-port=8081"`
)

// workload is a Deployment of a HotROD service. Its pods have the label app.
func (s *strays) workload(name, app, args string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q,"namespace":%[3]q},
"spec":{"selector":{"matchLabels":{"app":%[2]q,"of":%[1]q}},"template":{
  "metadata":{"labels":{"app":%[2]q,"of":%[1]q},"annotations":{"sidecar.signadot.com/inject":"true"}},
  "spec":{"automountServiceAccountToken":false,"containers":[{"name":"hotrod","image":"switchyard.dev/hotrod:dev","imagePullPolicy":"IfNotPresent",
    "args":[%[4]s],
    "env":[{"name":"OTEL_TRACES_SAMPLER","value":"always_off"}],"ports":[{"name":"http","containerPort":8081}],
    "readinessProbe":{"tcpSocket":{"port":8081},"periodSeconds":2},
    "resources":{"requests":{"cpu":"10m","memory":"32Mi"},"limits":{"memory":"128Mi"}}}]}}}}`, name, app, s.name, args)
}

// applyBaseline makes the namespace, the baseline and its Service, and finds the Service.
func (s *strays) applyBaseline() {
	s.t.Helper()
	s.apply(fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, s.name))
	s.apply(fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"desk","namespace":%q},
"spec":{"selector":{"app":"desk"},"ports":[{"name":"http","port":8081,"targetPort":8081,"appProtocol":"http"}]}}`, s.name))
	s.service.Store(strings.TrimPrefix(s.url(s.name, "desk", 8081), "http://"))
	s.apply(s.workload("desk", "desk", customerArgs))
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

// ready waits until Ready of the sandbox is status and its message contains this text, and records
// how long that took.
func (s *strays) ready(status, text string) {
	s.t.Helper()
	began := time.Now()
	s.eventually("Ready is "+status+": "+text, time.Minute, func() error {
		const path = `jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.message}{end}`
		if ready := s.kubectl("", "get", "signadotsandbox", s.name, "-o", path); !strings.HasPrefix(ready, status+" ") || !strings.Contains(ready, text) {
			return fmt.Errorf("it is %s", ready)
		}
		return nil
	})
	took := time.Since(began)
	s.slowest = max(s.slowest, took)
	s.t.Logf("%.1f s until Ready was %s: %s", took.Seconds(), status, text)
}

// withoutCaveat is how the message of Ready ends when there is no caveat.
const withoutCaveat = "All desired workloads are available."

// rollOut waits for the pods of a workload.
func (s *strays) rollOut(name string) {
	s.t.Helper()
	s.kubectl("", "rollout", "status", "-n", s.name, "deployment/"+name, "--timeout=120s")
}

// remove deletes a workload.
func (s *strays) remove(name string) {
	s.t.Helper()
	s.kubectl("", "delete", "deployment", "-n", s.name, name, "--timeout=60s")
}

func (s *strays) addCanary() {
	s.keyed(func() {
		s.apply(s.workload("canary", "desk", otherArgs))
		s.ready("True", "Service desk also selects pods of Deployment canary")
		s.rollOut("canary")
		s.remove("canary")
		s.readyAgain()
	})
}

// readyAgain waits until the sandbox is Ready without a caveat.
func (s *strays) readyAgain() {
	s.t.Helper()
	s.ready("True", withoutCaveat)
	s.eventually("there is no caveat", time.Minute, func() error {
		if caveats := s.kubectl("", "get", "signadotsandbox", s.name, "-o", `jsonpath={.status.conditions[?(@.type=="Caveats")].message}`); caveats != "" {
			return fmt.Errorf("it is %s", caveats)
		}
		return nil
	})
}

func (s *strays) moveService() {
	s.apply(s.workload("green", "green", otherArgs))
	s.rollOut("green")
	s.keyed(func() {
		s.selectApp("green")
		s.ready("False", "Service desk no longer selects Deployment "+s.name+"/desk but pods of Deployment green")
		s.selectApp("desk")
		s.readyAgain()
	})
	s.remove("green")
}

// selectApp makes the Service select pods with this label app.
func (s *strays) selectApp(app string) {
	s.t.Helper()
	s.kubectl("", "patch", "service", "-n", s.name, "desk", "-p", fmt.Sprintf(`{"spec":{"selector":{"app":%q}}}`, app))
}

func (s *strays) scaleToZero() {
	s.keyed(func() {
		s.kubectl("", "scale", "-n", s.name, "deployment/desk", "--replicas=0")
		s.ready("True", "desk has 0 replicas")
		s.kubectl("", "scale", "-n", s.name, "deployment/desk", "--replicas=1")
		s.rollOut("desk")
		s.readyAgain()
	})
}
