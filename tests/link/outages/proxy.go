package outages

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"switchyard.dev/tunnels/relay"
)

const (
	proxyPod  = 101
	proxyPort = 3128
	// proxyRoundTrip is that between the agent and the proxy.
	proxyRoundTrip = 300 * time.Millisecond
)

// Proxy is the result of an agent behind an HTTP CONNECT proxy.
type Proxy struct {
	// Served is the time from the start of the agent to the first answer.
	Served time.Duration
	// Connects is how often the proxy has connected to the control plane.
	Connects int32
}

// proxied measures an agent that reaches the control plane through a proxy only: the server's name resolves
// nowhere else.
func (w *world) proxied() (out Proxy, err error) {
	s, err := w.newSite("proxy", proxyPod)
	if err != nil {
		return out, err
	}
	defer s.close()
	at, _, err := net.SplitHostPort(s.agents)
	if err != nil {
		return out, err
	}
	s.agents = net.JoinHostPort("127.0.0.1", agentsPort) // of the machine, where the proxy is
	if err := s.startServer(); err != nil {
		return out, err
	}
	s.line.set(condition{delay: proxyRoundTrip / 2})
	var connects atomic.Int32
	l, err := s.pod.Listen(proxyPort)
	if err != nil {
		return out, err
	}
	proxy := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != net.JoinHostPort(serverName, agentsPort) {
			http.Error(w, "this proxy connects to the control plane only", http.StatusForbidden)
			return
		}
		var there net.Conn
		if err := s.pod.Do(func() (err error) {
			there, err = new(net.Dialer).DialContext(r.Context(), "tcp", s.agents)
			return err
		}); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = there.Close()
			return
		}
		connects.Add(1)
		_, _ = fmt.Fprint(here, "HTTP/1.1 200 Connection established\r\n\r\n") // else the relay fails
		relay.Pipe(relay.Of(here), relay.Of(there))
	})}
	go func() { _ = proxy.Serve(l) }()
	w.servers = append(w.servers, proxy)
	began := time.Now()
	if s.agent, err = w.startAgent(s.files, s.name, net.JoinHostPort(serverName, agentsPort), s.token, fmt.Sprintf("HTTPS_PROXY=http://%s:%d", at, proxyPort)); err != nil {
		return out, err
	}
	if err := s.steady(); err != nil {
		return out, err
	}
	out.Served, out.Connects = time.Since(began), connects.Load()
	return out, s.running()
}
