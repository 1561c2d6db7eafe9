package listeners

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
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
)

// honestAgents is how many clusters have agents at one address.
const honestAgents = 20

// honestAgent is the agent of a cluster, with a Service that answers "ok".
type honestAgent struct {
	cluster string
	*link.Agent
}

// startAgents starts the agents of clusters, and waits for their sessions. They end with ctx.
func startAgents(ctx context.Context, p *plane.Plane, clusters []string) (all []*honestAgent, err error) {
	bundle, err := os.ReadFile(p.File(trust.BundleFile))
	if err != nil {
		return nil, err
	}
	roots := trust.NewRoots("the control plane")
	if err := roots.Set(bundle); err != nil {
		return nil, err
	}
	proxy := httptest.NewServer(http.HandlerFunc(connectProxy))
	context.AfterFunc(ctx, proxy.CloseClientConnections)
	through, err := url.Parse(proxy.URL)
	if err != nil {
		return nil, err
	}
	for _, cluster := range clusters {
		a, err := link.New(link.Config{
			Address: p.Address(plane.Agents), Verify: roots.Verify, Handle: answerOK,
			Proxy: func(string) (*url.URL, error) { return through, nil },
			Token: func() (string, error) { return p.Tokens[cluster], nil },
			Hello: func(context.Context) (*linkv1.Hello, error) {
				return &linkv1.Hello{Version: admission.Version, ClusterUid: cluster, Instance: "honest"}, nil
			},
		})
		if err != nil {
			return nil, err
		}
		go a.Run(ctx)
		all = append(all, &honestAgent{cluster, a})
	}
	for _, a := range all {
		if err := a.renewed(ctx, 0); err != nil {
			return nil, fmt.Errorf("agent of cluster %s: %w", a.cluster, err)
		}
	}
	return all, nil
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
		drain(c) // to close it before the client does would cut it
	}
}

// epoch returns the number of the present session; 0: there is none.
func (a *honestAgent) epoch() uint64 {
	state, _ := a.State()
	if state.Kind != link.Up {
		return 0
	}
	return state.Welcome.GetEpoch()
}

// renewed waits for a session that is newer than an epoch.
func (a *honestAgent) renewed(ctx context.Context, than uint64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		state, changed := a.State()
		if state.Kind == link.Up && state.Welcome.GetEpoch() > than {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the agent of cluster %s is %s", a.cluster, state.Kind), state.Err)
		}
	}
}

// again connects again: a new TCP connection, with its handshake and Hello.
func (a *honestAgent) again(ctx context.Context) error {
	had := a.epoch()
	a.Renew(ctx)
	return a.renewed(ctx, had)
}

// connectAgents has the agents take turns to connect again.
func connectAgents(w *World, _ *Listener) (call, error) {
	var turn atomic.Int64
	return func(ctx context.Context) error {
		return w.beside.agents[int(turn.Add(1))%honestAgents].again(ctx)
	}, nil
}

// askThroughLink requests the Service of each cluster in turn, with the API key.
func askThroughLink(w *World, l *Listener) (call, error) {
	config, err := w.beside.trusts()
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: from(honestAddress, patience).DialContext, TLSClientConfig: config}}
	var turn atomic.Int64
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+w.address(l, 0)+"/", nil)
		if err != nil {
			return err
		}
		r.Host = "web.shop.svc"
		r.Header.Set("signadot-api-key", w.beside.plane.Key)
		r.Header.Set("signadot-cluster", w.beside.agents[int(turn.Add(1))%honestAgents].cluster)
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "ok" {
			return fmt.Errorf("status %d, %q: %w", answer.StatusCode, text, err)
		}
		return nil
	}, nil
}

// trusts returns the TLS settings of a client of the link server.
func (b *beside) trusts() (*tls.Config, error) {
	bundle, err := os.ReadFile(b.plane.File(trust.BundleFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return &tls.Config{RootCAs: roots, ServerName: b.plane.Machine.Address}, nil
}

// replicaProtocol is that of sessions between replicas.
const replicaProtocol = "switchyard-replica/1"

// forward connects as another replica, and opens a connection to the Service of each cluster in turn.
func forward(w *World, l *Listener) (call, error) {
	b := w.beside
	files, err := trust.Open(trust.Config{Dir: b.plane.Folder, Name: b.plane.Machine.Address})
	if err != nil {
		return nil, err
	}
	settings := carrier.Settings{Protocol: replicaProtocol, Open: func() proto.Message { return &linkv1.Forward{} }}
	config := settings.Secure(files.Mutual())
	var turn atomic.Int64
	return func(ctx context.Context) error {
		c, err := from(honestAddress, patience).DialContext(ctx, "tcp", w.address(l, 0))
		if err != nil {
			return err
		}
		secure := tls.Client(c, config)
		session, err := settings.Connect(ctx, secure, &linkv1.Hello{}, &linkv1.Answer{}, func() error { return nil })
		if err != nil {
			return errors.Join(err, c.Close())
		}
		defer session.Close(nil)
		to := &linkv1.Open_Service{Service: &tunnelv1.Address{Host: "web.shop.svc", Port: 80}}
		through, err := session.Open(ctx, &linkv1.Forward{
			Organisation: plane.Organisation, Cluster: b.agents[int(turn.Add(1))%honestAgents].cluster, Open: &linkv1.Open{Caller: &linkv1.Caller{Name: "jo"}, To: to},
		})
		if err != nil {
			return err
		}
		defer through.Close()
		return answersOK(through)
	}, nil
}

// answersOK sends a request, and returns an error unless it is answered.
func answersOK(c net.Conn) error {
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

// Shared is what became of the agents beside silent connections from their own address.
type Shared struct {
	// Kept kept their session until they connected again, and Served then had one, of Agents.
	Kept, Served, Agents int
	// Silent is how many silent connections there were at most.
	Silent int64
	// Why is the error of the first that was not served.
	Why error
}

// silence attacks the listener of agents with silent connections alone, from the address that all agents
// share. Then all agents connect again.
func (w *World) silence(ctx context.Context, f *Finding, o Options) (err error) {
	if f.Listener.Program != linkServer || f.Listener.Port != plane.Agents {
		return nil
	}
	crowd, err := process.Start(Role)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	s := &Shared{Agents: honestAgents}
	f.Shared = s
	before := map[string]uint64{}
	for _, a := range w.beside.agents {
		if err := a.renewed(ctx, 0); err != nil {
			return err
		}
		before[a.cluster] = a.epoch()
	}
	if err := w.send(crowd, f.Listener, o.Attackers, silent); err != nil {
		return err
	}
	for until := time.Now().Add(o.Within + time.Duration(o.Attackers)*time.Millisecond); time.Now().Before(until); {
		var n Counts
		if err := crowd.Call("Count", struct{}{}, &n); err != nil {
			return err
		}
		s.Silent = max(s.Silent, n.There)
		_ = wait.For(ctx, 100*time.Millisecond)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, a := range w.beside.agents {
		all.Go(func() {
			kept := a.epoch() == before[a.cluster]
			err := a.again(ctx)
			mu.Lock()
			defer mu.Unlock()
			if kept {
				s.Kept++
			}
			if err != nil {
				s.Why = err
				return
			}
			s.Served++
		})
	}
	all.Wait()
	return nil
}

func (s *Shared) print(out io.Writer, name string) {
	if s == nil {
		return
	}
	if s.Why != nil {
		fmt.Fprintf(out, "%s, beside silent connections: %v\n", name, s.Why)
	}
	figures.Text(out, name+"_SHARED_ADDRESS", s.Served, "agents_served", fmt.Sprintf("all of %d, beside at most %d silent connections from their address; %d kept their session before", s.Agents, s.Silent, s.Kept),
		s.Served == s.Agents && s.Kept == s.Agents)
}
