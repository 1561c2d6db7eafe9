package beside

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
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tunnels/carrier"
)

const (
	// clusters is how many clusters have agents at one address. As many more connect and leave.
	clusters = 20
	// patience is how long an honest call may take.
	patience = 10 * time.Second
)

// Agent is the agent of a cluster, with a Service that answers "ok".
type Agent struct {
	cluster string
	*link.Agent
}

// startAgents starts the agents of clusters, and waits for their sessions. They end with ctx.
func (s *Site) startAgents(ctx context.Context, clusters []string) error {
	bundle, err := os.ReadFile(s.File(trust.BundleFile))
	if err != nil {
		return err
	}
	roots := trust.NewRoots("the control plane")
	if err := roots.Set(bundle); err != nil {
		return err
	}
	proxy := httptest.NewServer(http.HandlerFunc(s.connect))
	context.AfterFunc(ctx, proxy.CloseClientConnections)
	through, err := url.Parse(proxy.URL)
	if err != nil {
		return err
	}
	for _, cluster := range clusters {
		a, err := link.New(link.Config{
			Address: s.Address(plane.Agents), Verify: roots.Verify, Handle: answerOK,
			Proxy: func(string) (*url.URL, error) { return through, nil },
			Token: func() (string, error) { return s.Tokens[cluster], nil },
			Hello: func(context.Context) (*linkv1.Hello, error) {
				return &linkv1.Hello{Version: admission.Version, ClusterUid: cluster, Instance: "honest"}, nil
			},
		})
		if err != nil {
			return err
		}
		go a.Run(ctx)
		s.Agents = append(s.Agents, &Agent{cluster, a})
	}
	for _, a := range s.Agents {
		if err := a.up(ctx); err != nil {
			return err
		}
	}
	return nil
}

// connect is a proxy for CONNECT that connects from the address of honest callers: the agents of many clusters have
// one address, as behind a proxy or a gateway.
func (s *Site) connect(w http.ResponseWriter, r *http.Request) {
	far, err := s.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	if _, err := io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far) // until either has closed it
}

// answerOK answers one request of a connection.
func answerOK(_ context.Context, in *carrier.Incoming, _ *linkv1.Welcome) {
	if in.Request.(*linkv1.Open).GetService() == nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "This agent has a Service alone."})
		return
	}
	c, err := in.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		_, _ = io.Copy(io.Discard, c) // to close it before the client does would cut it
	}
}

// Epoch returns the number of the present session; 0: there is none.
func (a *Agent) Epoch() uint64 {
	state, _ := a.State()
	if state.Kind != link.Up {
		return 0
	}
	return state.Welcome.GetEpoch()
}

// up waits for a session.
func (a *Agent) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		state, changed := a.State()
		if state.Kind == link.Up {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the agent of cluster %s is %s", a.cluster, state.Kind), state.Err)
		}
	}
}

// Connect returns calls that connect as the agents of further clusters, in turn: each makes a TCP connection, the
// handshakes, and has a session.
func (s *Site) Connect() (func(context.Context) error, error) {
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	config := link.Settings().Secure(roots)
	return func(ctx context.Context) error {
		cluster := calling[int(s.turn.Add(1))%clusters]
		c, err := s.dial(ctx, "tcp", s.Address(plane.Agents))
		if err != nil {
			return err
		}
		hello, answer := &linkv1.Hello{Version: admission.Version, Token: s.Tokens[cluster], ClusterUid: cluster, Instance: "honest"}, &linkv1.Answer{}
		session, err := link.Settings().Connect(ctx, tls.Client(c, config), hello, answer, func() error {
			if answer.GetWelcome() == nil {
				return fmt.Errorf("cluster %s has no session: %v", cluster, answer)
			}
			return nil
		})
		if err != nil {
			return errors.Join(err, c.Close())
		}
		session.Close(nil)
		return nil
	}, nil
}

// roots returns the TLS settings of a client of the control plane.
func (s *Site) roots() (*tls.Config, error) {
	bundle, err := os.ReadFile(s.File(trust.BundleFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return &tls.Config{RootCAs: roots, ServerName: s.Machine.Address}, nil
}

// Ask returns calls that request the Service of each cluster in turn, with the API key.
func (s *Site) Ask() (func(context.Context) error, error) {
	return s.get(Proxy, "/", func(r *http.Request) { r.Host = "web.shop.svc" }, func(text string) bool { return text == "ok" })
}

// List returns calls that request the organisation of the user from the REST API.
func (s *Site) List() (func(context.Context) error, error) {
	return s.get(API, "/api/v2/orgs/", func(*http.Request) {}, func(text string) bool { return strings.Contains(text, plane.Organisation) })
}

// Visit returns calls that request the preview of each cluster in turn.
func (s *Site) Visit() (func(context.Context) error, error) {
	return s.get(Previews, "/", func(r *http.Request) { r.Host = "web--" + r.Header.Get("signadot-cluster") + "." + domain }, func(text string) bool { return text == "ok" })
}

// get returns calls that request a path with the API key, and check the answer.
func (s *Site) get(port int, path string, change func(*http.Request), is func(text string) bool) (func(context.Context) error, error) {
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	if port == Previews {
		roots = &tls.Config{InsecureSkipVerify: true, ServerName: "a--b." + domain} //nolint:gosec // its authority is another one
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: s.dial, TLSClientConfig: roots}}
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Address(port)+path, nil)
		if err != nil {
			return err
		}
		r.Header.Set("signadot-api-key", s.Key)
		r.Header.Set("signadot-cluster", s.next().cluster)
		change(r)
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !is(string(text)) {
			return fmt.Errorf("status %d, %q: %w", answer.StatusCode, text, err)
		}
		return nil
	}, nil
}

// ReplicaProtocol is that of sessions between replicas.
const ReplicaProtocol = "switchyard-replica/1"

// Forward returns calls that connect as another replica, and request the Service of each cluster in turn.
func (s *Site) Forward() (func(context.Context) error, error) {
	files, err := trust.Open(trust.Config{Dir: s.Folder, Name: s.Machine.Address})
	if err != nil {
		return nil, err
	}
	settings := carrier.Settings{Protocol: ReplicaProtocol, Open: func() proto.Message { return &linkv1.Forward{} }}
	config := settings.Secure(files.Mutual())
	open := &linkv1.Open{
		Caller: &linkv1.Caller{Name: "jo"}, To: &linkv1.Open_Service{Service: &tunnelv1.Address{Host: "web.shop.svc", Port: 80}},
	}
	return func(ctx context.Context) error {
		c, err := s.dial(ctx, "tcp", s.Address(plane.Replicas))
		if err != nil {
			return err
		}
		session, err := settings.Connect(ctx, tls.Client(c, config), &linkv1.Hello{}, &linkv1.Answer{}, func() error { return nil })
		if err != nil {
			return errors.Join(err, c.Close())
		}
		defer session.Close(nil)
		through, err := session.Open(ctx, &linkv1.Forward{Organisation: plane.Organisation, Cluster: s.next().cluster, Open: open})
		if err != nil {
			return err
		}
		defer through.Close()
		return answered(through)
	}, nil
}

// answered sends a request, and returns an error unless it is answered.
func answered(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: web\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	return nil
}
