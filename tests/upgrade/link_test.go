package upgrade

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// linked is the cluster as the control plane knows it.
const linked = "upgraded"

// connected is a cluster that is connected to a control plane.
type connected struct {
	*world
	plane *plane.Plane
	tls   *tls.Config
}

// connects upgrades the installation to one with a control plane, and waits for the session.
func connects(w *world) *connected {
	w.t.Helper()
	ctx := w.t.Context()
	p, err := plane.New(ctx, linked)
	w.t.Cleanup(func() {
		if err := p.Remove(); err != nil {
			w.t.Error(err)
		}
	})
	if err == nil {
		err = p.Serve(ctx)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	bundle, err := os.ReadFile(p.File(trust.BundleFile))
	if err != nil {
		w.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	c := &connected{w, p, &tls.Config{RootCAs: roots, ServerName: p.Machine.Address}}
	c.installs(c.values()...)
	c.session(0)
	return c
}

// values are the arguments with which helm connects the cluster.
func (c *connected) values(more ...string) []string {
	return append(more, "--set=controlPlane.tunnelAddr="+c.plane.Address(plane.Agents), "--set=controlPlane.clusterToken="+c.plane.Tokens[linked], "--set-file=controlPlane.ca="+c.plane.File(trust.BundleFile))
}

// session waits for a session that is newer than an epoch.
func (c *connected) session(than uint64) (now *server.Agent) {
	c.t.Helper()
	wait.Eventually(c.t, patience, "the session of the cluster", func() error {
		for _, now = range c.plane.Link.Agents() {
			if now.Epoch > than {
				return nil
			}
		}
		return fmt.Errorf("the sessions are %v", c.plane.Link.Agents())
	})
	return now
}

// through sends requests to the Service of the workload through the link, with the API key.
type through struct {
	*http.Transport
	key string
}

// RoundTrip implements http.RoundTripper.
func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = "app." + namespace + ".svc"
	r.Header.Set("signadot-api-key", t.key)
	r.Header.Set("signadot-cluster", linked)
	return t.Transport.RoundTrip(r)
}

// replaced replaces the agent while requests pass the link, over connections that are kept and over new ones, and while
// others have long-lived connections through it. It fails the test when requests of more than a second failed, or when
// a connection of the former agent was cut before the new one had the session. Without a session, for a moment, requests wait.
func (c *connected) replaced(what string, do func()) {
	c.t.Helper()
	before := c.session(0)
	stop, done := make(chan struct{}), make(chan *traffic.Ledger, 2)
	wants := []traffic.Want{{Side: traffic.Baseline}, {Key: "lives", Side: traffic.Fork}}
	for _, kept := range []bool{true, false} {
		transport := through{&http.Transport{TLSClientConfig: c.tls, MaxIdleConnsPerHost: 16, DisableKeepAlives: !kept}, c.plane.Key}
		sender := traffic.Sender{URL: "https://" + c.plane.Address(plane.Users) + "/", Client: &http.Client{Timeout: 10 * time.Second, Transport: transport}, Judge: traffic.Podinfo}
		go func() { done <- sender.Rate(c.t.Context(), perSecond, wants, stop) }()
	}
	var without atomic.Int64 // checks that found no session
	var checks sync.WaitGroup
	checks.Go(func() {
		for ticker := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-stop:
				return
			case <-ticker.C:
				if len(c.plane.Link.Agents()) == 0 {
					without.Add(1)
				}
			}
		}
	})
	busy, idle := c.opens(), c.opens()
	used := make(chan error, 1)
	go func() { used <- c.usesAfter(before, busy) }()
	do()
	if err := <-used; err != nil {
		c.t.Errorf("%s: a connection through the former agent: %v", what, err)
	}
	if lasted, err := idle.ends(); err == nil || errors.Is(err, io.EOF) {
		c.t.Errorf("%s: a connection that does not end was to be cut, and reads %v", what, err)
	} else {
		c.t.Logf("%s: a connection that does not end by itself lasted %.0f s from the beginning, then: %v", what, lasted.Seconds(), err)
	}
	close(stop)
	checks.Wait()
	failed := 0
	for range 2 {
		ledger := <-done
		c.t.Logf("%s, through the link: %s", what, ledger)
		failed = max(failed, ledger.FailedCount)
		if ledger.FailedCount > perSecond || ledger.WrongCount > 0 || ledger.Sent == 0 {
			c.t.Errorf("%s: requests of more than a second failed, or were served by the wrong side", what)
		}
	}
	if n := without.Load(); n > 0 {
		c.t.Logf("%s: there was no session at %d checks, one each 5 ms", what, n)
	}
	figures.AtMost(os.Stdout, "link-failed-during-"+what, float64(failed)/perSecond, "s", 1)
}

// usesAfter uses a connection once another agent than a former one has the session, and closes it.
func (c *connected) usesAfter(former *server.Agent, l *lasting) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	for {
		if all := c.plane.Link.Agents(); len(all) == 1 && all[0].Instance != former.Instance {
			break
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the agent is still the former one: %w", err)
		}
	}
	if err := l.asks(); err != nil {
		return err
	}
	return l.Close()
}

// lasting is a connection to the workload through the link, which its client does not close.
type lasting struct {
	net.Conn
	from  *bufio.Reader
	began time.Time
}

// opens opens one by CONNECT, and uses it.
func (c *connected) opens() *lasting {
	c.t.Helper()
	conn, err := tls.Dial("tcp", c.plane.Address(plane.Users), c.tls)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	l := &lasting{conn, bufio.NewReader(conn), time.Now()}
	if err = l.sends(http.MethodConnect, "app."+namespace+".svc:80", "signadot-api-key: "+c.plane.Key+"\r\nsignadot-cluster: "+linked); err == nil {
		err = l.asks()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// asks sends a request that keeps the connection.
func (l *lasting) asks() error { return l.sends(http.MethodGet, "/", "Accept: */*") }

func (l *lasting) sends(method, to, header string) error {
	_ = l.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(l, "%s %s HTTP/1.1\r\nHost: app\r\n%s\r\n\r\n", method, to, header); err != nil {
		return err
	}
	answer, err := http.ReadResponse(l.from, &http.Request{Method: method})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if method != http.MethodConnect {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, to, answer.Status)
	}
	return err
}

// ends waits until the connection ends, and returns how.
func (l *lasting) ends() (time.Duration, error) {
	_ = l.SetDeadline(time.Now().Add(patience))
	_, err := l.from.ReadByte()
	return time.Since(l.began), err
}

// agentKinds are the kinds of the agent's objects, and agentNames parts of their names.
var (
	agentKinds = "deployments,replicasets,pods,services,endpointslices,serviceaccounts,configmaps,secrets,roles,rolebindings,networkpolicies," +
		"clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
	agentNames = []string{"agent", "controlplane", "control-plane", "cluster-token"}
)

// hasNoAgent waits until nothing of the agent is left.
func (w *world) hasNoAgent() {
	w.t.Helper()
	wait.Eventually(w.t, patience, "nothing is left of the agent", func() error {
		for name := range strings.Lines(w.kubectl("", "get", agentKinds, "-A", "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)) {
			for _, part := range agentNames {
				if strings.Contains(name, part) && !strings.Contains(name, "/kube-system/") && !strings.Contains(name, "system:") {
					return errors.New("there is " + strings.TrimSpace(name))
				}
			}
		}
		return nil
	})
}
