package linkserver_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/credential/signed"
)

// TestAServiceReceivesTheRequestWithoutTheKey sends each form of request, with texts in 20 headers and the body that no
// log may have.
func TestAServiceReceivesTheRequestWithoutTheKey(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	s.agent(r.at["agents"])
	canaries := "Content-Length: 13\nX-Forwarded-Proto: gopher\nX-Forwarded-User: admin\nCookie: s3cret-c\nUser-Agent: s3cret-u\nReferer: http://s3cret-r/\n"
	for i := range 20 {
		canaries += fmt.Sprintf("X-Canary-%d: s3cret-canary-%d\n", i, i)
	}
	for name, c := range map[string]struct{ target, header, authorization string }{
		"reverse proxy":                         {"/s3cret-path?a=1;b=%zz", with(joKey), ""},
		"reverse proxy, bearer":                 {"/s3cret-path?a=1;b=%zz", "Authorization: bearer " + joKey + "\nsignadot-cluster: prod\n", ""},
		"reverse proxy, with the application's": {"/s3cret-path?a=1;b=%zz", with(joKey) + "Authorization: Bearer of-the-app\n", "Bearer of-the-app"},
		"reverse proxy, twice the key":          {"/s3cret-path?a=1;b=%zz", with(joKey) + "Authorization: Bearer " + joKey + "\n", ""},
		"proxy":                                 {"http://web.shop.svc/s3cret-path?a=1;b=%zz", "Proxy-Authorization: " + basic("prod", joKey) + "\n", ""},
		"proxy, bearer":                         {"http://web.shop.svc/s3cret-path?a=1;b=%zz", "Proxy-Authorization: Bearer " + joKey + "\nSignadot-Cluster: prod\nAuthorization: Basic YTpi\n", "Basic YTpi"},
	} {
		t.Run(name, func(t *testing.T) {
			answer, _, _ := s.send(r.at["users"], "POST "+c.target+" HTTP/1.1\nHost: web.shop.svc\n"+c.header+canaries+"\ns3cret-body-1")
			got := received{}
			if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%s, %v", answer.Status, err)
			}
			if got.Method != "POST" || got.Host != "web.shop.svc" || got.URI != "/s3cret-path?a=1;b=%zz" || got.Body != "s3cret-body-1" || got.Header.Get("X-Canary-19") != "s3cret-canary-19" {
				t.Errorf("the Service received %+v", got)
			}
			if got.Header.Get("Authorization") != c.authorization {
				t.Errorf("Authorization is %q", got.Header.Get("Authorization"))
			}
			for key, values := range got.Header {
				if text := strings.Join(values, " "); strings.HasPrefix(key, "Signadot") || strings.HasPrefix(key, "X-Forwarded") || strings.HasPrefix(key, "Proxy") || strings.Contains(text, joKey) || strings.Contains(text, basic("prod", joKey)) {
					t.Errorf("the Service received %s: %s", key, text)
				}
			}
		})
	}
	for _, refused := range []string{
		"POST / HTTP/1.1\nHost: s3cret-host.shop.svc\n" + canaries + "\ns3cret-body-1",
		"POST / HTTP/1.1\nHost: denied.shop.svc\n" + with(joKey) + canaries + "\ns3cret-body-1",
		"POST / HTTP/1.1\nHost: s3cret-host.shop.svc\n" + with(joKey) + canaries + "\ns3cret-body-1",
		"POST / HTTP/1.1\nHost: web.shop.svc\nsignadot-api-key: " + joKey + "\nsignadot-cluster: s3cret-cluster\n" + canaries + "\ns3cret-body-1",
		"CONNECT s3cret-host.shop.svc:1 HTTP/1.1\nHost: s3cret-host.shop.svc:1\n" + with(joKey) + "\n",
		"POST / HTTP/1.1\nHost: web.shop.svc\nsignadot-api-key: " + alKey + "\nsignadot-cluster: s3cret cluster\n" + canaries + "\ns3cret-body-1",
		"POST / HTTP/1.1\nHost: web.shop.svc\nsignadot-api-key: " + alKey + "\nsignadot-cluster: *\n" + canaries + "\ns3cret-body-1",
	} {
		if answer, _, _ := s.send(r.at["users"], refused); answer.StatusCode < 400 {
			t.Errorf("answered %s", answer.Status)
		}
	}
	if err := s.services("jo"); err != nil {
		t.Error(err)
	}
	if text := s.log.String(); strings.Count(text, "a request was refused") != 6 || !strings.Contains(text, "user=jo") {
		t.Errorf("the log has other refusals than the six of users:\n%s", text)
	}
}

func TestRefusalsNameTheProblemAndTheRemedy(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	s.agent(r.at["agents"])
	get := func(host, header string) string { return "GET / HTTP/1.1\nHost: " + host + "\n" + header + "\n" }
	connect := func(host, header string) string {
		return "CONNECT " + host + " HTTP/1.1\nHost: " + host + "\n" + header + "\n"
	}
	for _, c := range []struct {
		text   string
		status int
		want   string
	}{
		{get("web.shop.svc", ""), 401, "no API key. Send it in header signadot-api-key"},
		{connect("web.shop.svc:80", ""), 407, "no API key"},
		{"GET http://web.shop.svc/ HTTP/1.1\nHost: web.shop.svc\n\n", 407, "no API key"},
		{get("web.shop.svc", with("s3cret-unknown")), 401, "not known or was revoked. Create a new one."},
		{get("web.shop.svc", with(prodToken)), 401, "not known"},
		{connect("web.shop.svc:80", "Proxy-Authorization: "+basic("prod", "s3cret-unknown")+"\n"), 407, "not known"},
		{get("web.shop.svc", "signadot-api-key: "+joKey+"\n"), 400, "names no cluster. Send its name in header signadot-cluster."},
		{get("web.shop.svc", "signadot-api-key: "+joKey+"\nsignadot-cluster: stage\n"), 403, `The API key of jo does not reach cluster "stage", only prod. Add the cluster to the key.`},
		{get("web.shop.svc", "signadot-api-key: "+alKey+"\nsignadot-cluster: stage\n"), 503, `The agent of cluster "stage" is not connected to the control plane. Check Deployment agent of the cluster.`},
		{get("web.shop.svc:x", with(joKey)), 400, "is not the address of a Service. Write NAME.NAMESPACE.svc:PORT."},
		{get("web.shop.svc:0", with(joKey)), 400, "is not the address"},
		{get("web.shop.svc:65536", with(joKey)), 400, "is not the address"},
		{get("", with(joKey)), 400, "is not the address"},
		{connect("web.shop.svc", with(joKey)), 400, "is not the address"},
		{"GET https://web.shop.svc/ HTTP/1.1\nHost: web.shop.svc\n" + with(joKey) + "\n", 400, "Use CONNECT, and TLS through it."},
		{get("denied.shop.svc", with(joKey)), 403, "Refused by the agent: denied.shop.svc."},
		{connect("denied.shop.svc:80", with(joKey)), 403, "Refused by the agent"},
		{get("none.shop.svc", with(joKey)), 502, "Refused by the agent"},
		{connect("closed.shop.svc:80", with(joKey)), 502, "Refused by the agent"},
		{get("echo.shop.svc", with(joKey)), 502, "does not answer as HTTP/1.1. Check the port; for other protocols use CONNECT."},
		{"GET / HTTP/1.1\nHost: web.shop.svc\nX-Large: " + strings.Repeat("x", 80<<10) + "\n\n", 431, ""},
	} {
		answer, _, _ := s.send(r.at["users"], c.text)
		body, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%.60q: %s %s, want %d %s", c.text, answer.Status, body, c.status, c.want)
		}
		if challenge := answer.Header.Get("Proxy-Authenticate"); (challenge != "") != (c.status == 401 || c.status == 407) {
			t.Errorf("%.60q: the challenge is %q", c.text, challenge)
		}
	}
	metrics, err := http.Get("http://" + r.at["metrics"] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	text, _ := io.ReadAll(metrics.Body)
	for _, want := range []string{`switchyard_link_requests_total{result="403"} 3`, `switchyard_link_requests_total{result="accepted"}`, "switchyard_link_agents 1", `switchyard_link_connections_closed_total{listener="users"} 0`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// TestUsersShareNoConnection sends requests of two users over kept connections: the agent identifies users by
// connection.
func TestUsersShareNoConnection(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	s.agent(r.at["agents"])
	for _, key := range []string{joKey, alKey, joKey, alKey} {
		answer, _, _ := s.send(r.at["users"], "GET / HTTP/1.1\nHost: web.shop.svc\n"+with(key)+"\n")
		if err := json.NewDecoder(answer.Body).Decode(&received{}); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", answer.Status, err)
		}
	}
	if err := s.services("jo", "al"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"jo", "al"} {
		if !slices.ContainsFunc(s.opens, func(o *linkv1.Open) bool { return o.GetCaller().GetName() == name }) {
			t.Errorf("no connection was opened for %s", name)
		}
	}
}

func TestAConnectionPassesEndsAndCuts(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	s.agent(r.at["agents"])
	// The first bytes come with the request.
	answer, c, from := s.send(r.at["users"], "CONNECT echo.shop.svc:7 HTTP/1.1\nHost: echo.shop.svc:7\n"+with(joKey)+"\nearly ")
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	wait.Eventually(t, patience, "a data connection", func() error {
		if !s.log.Says("a data connection has begun") {
			return errors.New("the log has none")
		}
		return nil
	})
	large := strings.Repeat("0123456789abcdef", 1<<16)
	go func() {
		_, _ = io.WriteString(c, large)
		_ = c.CloseWrite()
	}()
	if got, err := io.ReadAll(from); err != nil || string(got) != "early "+large {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	c, from = s.connect(r.at["users"], joKey, "echo.shop.svc:7")
	if _, err := io.WriteString(c, "cut"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(from); err == nil {
		t.Errorf("a connection that was cut ends like a complete one, after %q", got)
	}
	answer, c, from = s.send(r.at["users"], "GET /upgrade HTTP/1.1\nHost: web.shop.svc\nConnection: Upgrade\nUpgrade: lines\n"+with(joKey)+"\n")
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(answer.Status)
	}
	if _, err := io.WriteString(c, "a line\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := from.ReadString('\n'); line != "a line\n" {
		t.Errorf("read %q, %v", line, err)
	}
}

// TestARevokedKeyEndsItsConnections removes the key of jo, and then the cluster of al.
func TestARevokedKeyEndsItsConnections(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	s.agent(r.at["agents"])
	joConn, joFrom := s.connect(r.at["users"], joKey, "echo.shop.svc:7")
	alConn, alFrom := s.connect(r.at["users"], alKey, "echo.shop.svc:7")
	stream, _, _ := s.send(r.at["users"], "GET /stream HTTP/1.1\nHost: web.shop.svc\n"+with(joKey)+"\n")
	works := func(c io.Writer, from *bufio.Reader) error {
		if _, err := io.WriteString(c, "a line\n"); err != nil {
			return err
		}
		_, err := from.ReadString('\n')
		return err
	}
	s.write("apiKeys:\n" + entry(joKey, "clusters: [prod]") + tokens) // not valid
	wait.Eventually(t, patience, "a line in the log", func() error {
		if !strings.Contains(s.log.String(), "apiKeys[0]: an API key needs user") {
			return errors.New("there is none")
		}
		return nil
	})
	if err := works(joConn, joFrom); err != nil {
		t.Errorf("with a file that is not valid: %v", err)
	}
	s.write("apiKeys:\n" + al + tokens)
	if _, err := io.ReadAll(joFrom); err == nil {
		t.Error("the connection ends like a complete one")
	}
	if _, err := io.ReadAll(stream.Body); err == nil {
		t.Error("the answer ends like a complete one")
	}
	if answer, _, _ := s.send(r.at["users"], "GET / HTTP/1.1\nHost: web.shop.svc\n"+with(joKey)+"\n"); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("answered %s", answer.Status)
	}
	if err := works(alConn, alFrom); err != nil {
		t.Errorf("the connection of another key: %v", err)
	}
	s.write("apiKeys:\n" + entry(alKey, "user: al, clusters: [stage]") + tokens)
	if _, err := io.ReadAll(alFrom); err == nil {
		t.Error("the connection ends like a complete one")
	}
}

// TestARevokedClusterTokenEndsTheSession removes the token from the file, and adds it again.
func TestARevokedClusterTokenEndsTheSession(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	a := s.agent(r.at["agents"])
	_, from := s.connect(r.at["users"], joKey, "echo.shop.svc:7")
	s.write("apiKeys:\n" + jo)
	if _, err := io.ReadAll(from); err == nil {
		t.Error("the connection ends like a complete one")
	}
	next := strings.Repeat("s3cret-next-", 4)
	s.write("apiKeys:\n" + jo + "clusterTokens:\n" + entry(next, "clusters: [prod]"))
	s.token.Store(next)
	wait.Eventually(t, patience, "a session", func() error {
		if state, _ := a.State(); state.Welcome.GetEpoch() < 2 {
			return errors.New("there is none")
		}
		return nil
	})
	s.connect(r.at["users"], joKey, "echo.shop.svc:7")
}

// TestClientsWithoutAKeyHaveDeadlines has clients that do not finish their requests.
func TestClientsWithoutAKeyHaveDeadlines(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	for name, text := range map[string]string{
		"no request":  "",
		"half a head": "GET / HTTP/1.1\r\nHost: web.shop.svc\r\nX-Slow: ",
		"half a body": "POST / HTTP/1.1\r\nHost: web.shop.svc\r\nContent-Length: 100\r\n\r\nhalf",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := s.dial(r.at["users"])
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the server does not end the connection")
			}
		})
	}
}

// TestARequestForACredentialHasDeadlines has one with a body that does not end.
func TestARequestForACredentialHasDeadlines(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	answer, _, _ := s.send(r.at["users"], "POST "+signed.GrantPath+" HTTP/1.1\nHost: web.shop.svc\nContent-Length: 100\n"+with(joKey)+"\nhalf")
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("answered %s", answer.Status)
	}
}

// TestOneUserHasALimitOfConnections opens one more than the limit, while another user is served.
func TestOneUserHasALimitOfConnections(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	s.agent(r.at["agents"])
	const limit = 1024
	var open, refused atomic.Int32
	var parts sync.WaitGroup
	turns := make(chan struct{}, 32)
	for range limit + 6 {
		parts.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			switch answer, _, _ := s.send(r.at["users"], "CONNECT echo.shop.svc:7 HTTP/1.1\nHost: echo.shop.svc:7\n"+with(joKey)+"\n"); answer.StatusCode {
			case http.StatusOK:
				open.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			}
		})
	}
	parts.Wait()
	if open.Load() != limit || refused.Load() != 6 {
		t.Errorf("%d are open, %d were refused", open.Load(), refused.Load())
	}
	s.connect(r.at["users"], alKey, "echo.shop.svc:7")
}
