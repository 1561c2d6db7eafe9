package linkserver_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/eventbus/trust/trusttest"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/link/agents"
	"switchyard.dev/tests/link/replicas"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/relay"
)

func TestMain(m *testing.M) {
	roles := map[string]any{"registry": &replicas.Store{}, "replica": replicas.Replica{}}
	if role, is := roles[process.Role()]; is {
		if err := process.Answer(role); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

const patience = agents.Patience

// The secrets of the file. All have the text that no log may have.
var (
	joKey     = "s3cret-jo-" + strings.Repeat("j", 40)
	alKey     = "s3cret-al-" + strings.Repeat("a", 40)
	prodToken = "s3cret-prod-" + strings.Repeat("p", 40)
)

func entry(secret, rest string) string {
	return fmt.Sprintf("- {sha256: %x, organisation: acme, %s}\n", sha256.Sum256([]byte(secret)), rest)
}

// jo reaches cluster prod, al all clusters.
var (
	jo     = entry(joKey, "user: jo, roles: [dev], clusters: [prod]")
	al     = entry(alKey, "user: al, clusters: ['*']")
	tokens = "clusterTokens:\n" + entry(prodToken, "clusters: [prod]")
)

// site has the files of link servers, and an agent with Services.
type site struct {
	testing.TB
	authority *trusttest.Authority
	dir       string
	log       background.Output
	token     atomic.Value     // of the agent
	web       *httptest.Server // Service web.shop
	echo      string           // the address of Service echo.shop

	mu    sync.Mutex
	opens []*linkv1.Open
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{TB: t, authority: trusttest.New(t, "acme"), dir: t.TempDir()}
	s.authority.Write(t, s.dir, s.authority.Leaf(t, "127.0.0.1"))
	s.write("apiKeys:\n" + jo + al + tokens)
	s.web = httptest.NewServer(http.HandlerFunc(web))
	t.Cleanup(s.web.Close)
	s.token.Store(prodToken)
	s.echo = background.Listen(t, serveEcho)
	t.Cleanup(func() {
		if text := s.log.String(); strings.Contains(text, "s3cret") {
			t.Errorf("the log has a secret:\n%s", text)
		}
	})
	return s
}

// write replaces the file of credentials.
func (s *site) write(text string) { trusttest.File(s, s.dir, "credentials.yaml", []byte(text)) }

func (s *site) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// running is a link server that runs.
type running struct {
	*linkserver.Main
	at    map[string]string
	stop  context.CancelFunc
	ended chan error
}

func (s *site) start(change func(*linkserver.Config)) *running {
	s.Helper()
	c, err := replicas.Config(s.dir, s.logger())
	if err != nil {
		s.Fatal(err)
	}
	if change != nil {
		change(&c)
	}
	main, err := linkserver.New(c)
	if err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{main, replicas.Addresses(main), stop, make(chan error, 1)}
	go func() { r.ended <- main.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-r.ended; err != nil {
			s.Error(err)
		}
	})
	return r
}

// agent starts the agent of cluster prod, and waits for its session.
func (s *site) agent(address string) *link.Agent { return s.instance(address, "a", 1) }

// instance starts an agent of that name, and waits for its session.
func (s *site) instance(address, name string, epoch uint64) *link.Agent {
	s.Helper()
	cfg := agents.Config(s.TB, address, name, s.authority.Bundle())
	cfg.Token, cfg.Handle, cfg.Logger = func() (string, error) { return s.token.Load().(string), nil }, s.handle, s.logger()
	a, _ := agents.Start(s.TB, cfg)
	s.up(a, epoch)
	return a
}

// up waits for a session of at least an epoch, and returns the replica that has it.
func (s *site) up(a *link.Agent, epoch uint64) (replica string) {
	s.Helper()
	return agents.Up(s.TB, a, epoch).Welcome.GetServer()
}

// handle is the agent's: Services by name.
func (s *site) handle(ctx context.Context, in *carrier.Incoming, _ *linkv1.Welcome) {
	open := in.Request.(*linkv1.Open)
	s.mu.Lock()
	s.opens = append(s.opens, open)
	s.mu.Unlock()
	refusals := map[string]tunnelv1.Reason{
		"denied.shop.svc": tunnelv1.Reason_REASON_DESTINATION, "none.shop.svc": tunnelv1.Reason_REASON_NOT_FOUND, "closed.shop.svc": tunnelv1.Reason_REASON_UNREACHABLE,
	}
	if open.GetKubernetesApi() != nil {
		serveAuthority(in)
		return
	}
	host := open.GetService().GetHost()
	if reason, is := refusals[host]; is {
		in.Refuse(&tunnelv1.Refused{Reason: reason, Message: "Refused by the agent: " + host + "."})
		return
	}
	to, is := map[string]string{"web.shop.svc": s.web.Listener.Addr().String(), "echo.shop.svc": s.echo}[host]
	if !is {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "Unknown: " + open.String()})
		return
	}
	far, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNREACHABLE, Message: err.Error()})
		return
	}
	near, err := in.Accept()
	if err != nil {
		_ = far.Close()
		return
	}
	relay.Pipe(relay.Of(near), relay.Of(far))
}

// serveAuthority answers one request to the Kubernetes API with the operator's authority.
func serveAuthority(in *carrier.Incoming) {
	c, err := in.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	body := `{"data": {"ca.crt": "of ` + r.Method + " " + r.URL.Path + `"}}`
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}

// received is what a Service has received.
type received struct {
	Method, Host, URI, Body string
	Header                  http.Header
}

// web answers with the request. Path /stream never ends, and /upgrade repeats lines.
func web(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/stream":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	case "/upgrade":
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "lines")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, both, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.Copy(conn, both)
			_ = conn.Close()
		}
		return
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.NewEncoder(w).Encode(received{r.Method, r.Host, r.RequestURI, string(body), r.Header})
}

// serveEcho repeats the bytes that it receives. A client that sends "cut" is cut.
func serveEcho(c net.Conn) {
	head := make([]byte, 3)
	n, _ := io.ReadFull(c, head)
	_, _ = c.Write(head[:n])
	if string(head) == "cut" {
		_ = c.(*net.TCPConn).SetLinger(0)
		return
	}
	_, _ = io.Copy(c, c)
}

// dial connects to a server of users.
func (s *site) dial(address string) *tls.Conn {
	s.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.authority.Bundle())
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// send sends a request as text, and returns the answer. Its body may not have ended.
func (s *site) send(address, text string) (*http.Response, *tls.Conn, *bufio.Reader) {
	s.Helper()
	c := s.dial(address)
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		s.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	from := bufio.NewReader(c)
	_ = c.SetReadDeadline(time.Now().Add(5 * patience))
	answer, err := http.ReadResponse(from, &http.Request{Method: method})
	if err != nil {
		s.Fatalf("%s: %v", strings.SplitN(text, "\n", 2)[0], err)
	}
	s.Cleanup(func() {
		_ = c.Close() // first: the body may not have ended
		_ = answer.Body.Close()
	})
	return answer, c, from
}

// connect opens a connection to a Service by CONNECT.
func (s *site) connect(address, key, to string) (*tls.Conn, *bufio.Reader) {
	s.Helper()
	var answer *http.Response
	var c *tls.Conn
	var from *bufio.Reader
	wait.Eventually(s.TB, patience, "a connection", func() error {
		if answer, c, from = s.send(address, "CONNECT "+to+" HTTP/1.1\nHost: "+to+"\n"+with(key)+"\n"); answer.StatusCode != http.StatusOK {
			return fmt.Errorf("answered %s", answer.Status)
		}
		return nil
	})
	return c, from
}

// with returns the headers of a key, for cluster prod.
func with(key string) string { return "signadot-api-key: " + key + "\nsignadot-cluster: prod\n" }

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// services returns an error unless all connections that were requested are those of a caller with an API key to
// Services.
func (s *site) services(names ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.opens) == 0 {
		return fmt.Errorf("no connection was requested")
	}
	for _, o := range s.opens {
		if o.GetService() == nil || !o.GetCaller().GetApiKey() || !slices.Contains(names, o.GetCaller().GetName()) {
			return fmt.Errorf("a connection was requested by %v", o)
		}
	}
	return nil
}
