package routing_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/routing"
)

// Every stock client gets the key where connections are redirected, as the table for users states.
func TestStockClientsWhereConnectionsAreRedirected(t *testing.T) {
	w := newPod(t)
	w.clients(func(t *testing.T, c client, run func() (string, error)) {
		e := w.begin()
		text, err := run()
		w.expect(t, c, e.Count(), true, text, err)
	})
}

// curlIn returns the output of curl in the pod, without a proxy.
func (w *world) curlIn(args ...string) (string, error) {
	return w.output(exec.CommandContext(w.Context(), "curl", append([]string{"-sS"}, args...)...))
}

// Redirected connections that are not of HTTP without TLS, or of no job, pass unchanged.
func TestOtherRedirectedConnectionsPass(t *testing.T) {
	w := newPod(t)
	if text, err := w.curlIn("http://" + w.web + "/"); err != nil || !strings.HasSuffix(text, "key=\n") {
		t.Errorf("without a job: %q, %v", text, err)
	}
	e := w.begin()
	if text, err := w.curlIn("-k", "https://"+w.secure+"/"); err != nil || !strings.HasSuffix(text, "key=\n") {
		t.Errorf("TLS: %q, %v", text, err)
	}
	if text, err := w.curlIn("-x", "http://"+w.web, "http://elsewhere/path"); err != nil || !strings.Contains(text, "http://elsewhere/path") || !strings.HasSuffix(text, "key=\n") {
		t.Errorf("a request for another proxy: %q, %v", text, err)
	}
	c := w.dial(w.plain) // the server speaks first
	hi := make([]byte, 2)
	_, err := io.ReadFull(c, hi)
	w.must(err)
	_, err = io.WriteString(c, " there")
	w.must(err)
	w.must(c.CloseWrite())
	if rest, err := io.ReadAll(c); string(hi) != "hi" || string(rest) != " there" || err != nil {
		t.Errorf("a server that speaks first: %q %q, %v", hi, rest, err)
	}
	if n := e.Count(); n.GetWithKey() != 0 || n.GetWithoutKey() != 3 || n.GetCaveat() != "" {
		t.Errorf("the counts are %v", n)
	}
	host, _, _ := strings.Cut(w.web, ":")
	if text, err := w.curlIn("http://" + host + ":1/"); err == nil {
		t.Errorf("a server that cannot be reached answers %q", text)
	}
	w.proxy.End(e)
	e = w.proxy.Begin(&jobexecv1.RunRequest{Routing: &jobexecv1.RoutingContext{TrafficManager: true, RoutingKey: "mine"}}, []string{"*"}, false)
	if text, err := w.curlIn("http://" + w.web + "/"); err != nil || !strings.HasSuffix(text, "key=\n") || e.Count().GetWithoutKey() != 1 || e.Count().GetCaveat() != "" {
		t.Errorf("without injection: %q, %v, %v", text, err, e.Count())
	}
}

// A connection outlives the job that it began in: other containers of the pod use it, and its requests have no key then.
func TestARedirectedConnectionOutlivesItsJob(t *testing.T) {
	w := newPod(t)
	e := w.begin()
	c := w.dial(w.web)
	from := bufio.NewReader(c)
	ask := func() string {
		_, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: own.name\r\n\r\n")
		w.must(err)
		answer, err := http.ReadResponse(from, nil)
		w.must(err)
		text, err := io.ReadAll(answer.Body)
		w.must(err)
		if answer.StatusCode != http.StatusOK || !strings.HasPrefix(string(text), "HTTP/1.1 own.name / ") {
			t.Errorf("%s: %s", answer.Status, text)
		}
		return strings.TrimSpace(string(text))
	}
	ask()
	w.proxy.End(e)
	ask()
	w.proxy.Begin(&jobexecv1.RunRequest{Routing: &jobexecv1.RoutingContext{Inject: true, RoutingKey: "next"}}, nil, false)
	ask()
	if keys := w.seen(); !slices.Equal(keys, []string{"mine", "", ""}) {
		t.Errorf("the keys are %q", keys)
	}
}

// Connections that are served and those that are copied have one limit, and others wait until one ends.
func TestTheNumberOfRedirectedConnectionsIsBounded(t *testing.T) {
	const most = 3
	w := newPod(t, func(c *routing.Config) { c.MaxRedirected = most })
	w.begin()
	ask := func() net.Conn {
		c := w.dial(w.web)
		_, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: own.name\r\n\r\n")
		w.must(err)
		return c
	}
	answered := func(c net.Conn, within time.Duration) bool {
		w.must(c.SetReadDeadline(time.Now().Add(within)))
		_, err := c.Read(make([]byte, 1))
		return err == nil
	}
	open := []net.Conn{ask()}
	for answered(open[len(open)-1], map[bool]time.Duration{true: time.Minute, false: 2 * time.Second}[len(open) == 1]) {
		if len(open) > most {
			t.Fatalf("%d connections are served at once, of at most %d", len(open), most)
		}
		open = append(open, ask())
	}
	w.must(open[0].Close())
	if !answered(open[len(open)-1], time.Minute) {
		t.Errorf("connection %d is not served after another one has ended", len(open))
	}
}

// Another container of the pod can send the only requests with the key, which has a caveat.
func TestRequestsOfOtherContainersHaveACaveat(t *testing.T) {
	w := newPod(t, func(c *routing.Config) { c.Others = "beside, poll" })
	e := w.begin()
	if _, err := w.curlIn("http://" + w.web + "/"); err != nil {
		t.Fatal(err)
	}
	if n := e.Count(); n.GetWithKey() != 1 || !strings.Contains(n.GetCaveat(), "(beside, poll)") {
		t.Errorf("the counts are %v", n)
	}
}

// The custom headers of the cluster are written too, and a key in one of them stays.
func TestCustomHeaders(t *testing.T) {
	w := newWorld(t)
	e := w.proxy.Begin(&jobexecv1.RunRequest{Routing: &jobexecv1.RoutingContext{Inject: true, RoutingKey: "mine", CustomHeaders: []string{"x-team-key"}}}, nil, false)
	w.web = w.serveHeader("X-Team-Key")
	if got := w.curl("http://" + w.web + "/"); got != "mine" {
		t.Errorf("a request without a key has %q in the custom header", got)
	}
	if got := w.curl("-H", "x-team-key: own", "http://"+w.web+"/"); got != "own" || e.Count().GetWithKey() != 2 {
		t.Errorf("a request with a key has %q in the custom header; the counts are %v", got, e.Count())
	}
}

// serveHeader serves the value of a header.
func (w *world) serveHeader(name string) string {
	l := w.listen()
	s := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(out, r.Header.Get(name)) })} //nolint:gosec // A test.
	go func() { _ = s.Serve(l) }()
	w.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}
