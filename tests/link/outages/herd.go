package outages

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
)

const herdPod = 100

// Herd is the result of agents that lose their link server.
type Herd struct {
	Agents int
	// Back is the time from the start of the server to the session of the last agent.
	Back time.Duration
	// Rate is the mean number of TLS handshakes in a second since then, and Busiest the highest number in one, as this
	// process sees them.
	Rate    float64
	Busiest int
	// Revoked are the times from the revocation of a token to the end of its session.
	Revoked []time.Duration
}

// herd is many agents, each of a cluster of its own.
type herd struct {
	*site
	tokens map[string]string
	agents map[string]*link.Agent
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu         sync.Mutex
	handshakes []time.Time
}

// handshake notes that a handshake has reached the certificate of the server.
func (h *herd) handshake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handshakes = append(h.handshakes, time.Now())
}

// newHerd starts a link server with so many agents.
func (w *world) newHerd(agents int) (h *herd, err error) {
	h = &herd{tokens: map[string]string{}, agents: map[string]*link.Agent{}}
	if h.site, err = w.newSite("herd", herdPod); err != nil {
		return h, err
	}
	for i := range agents {
		h.tokens[fmt.Sprintf("cluster-%d", i)] = secret()
	}
	if err := errors.Join(h.credentials(h.tokens), h.startServer()); err != nil {
		return h, err
	}
	roots := trust.NewRoots("the herd")
	if err := roots.Set(h.pair.Cert); err != nil {
		return h, err
	}
	ctx, stop := context.WithCancel(w.ctx)
	h.stop = stop
	for name, token := range h.tokens {
		a, err := link.New(link.Config{
			Address: h.site.agents, Token: func() (string, error) { return token, nil },
			Verify: func(shown []*x509.Certificate, name string, now time.Time) error {
				h.handshake()
				return roots.Verify(shown, name, now)
			},
			Hello: func(context.Context) (*linkv1.Hello, error) {
				return &linkv1.Hello{Version: admission.Version, ClusterUid: name, Instance: name, OperatorVersion: "test"}, nil
			},
			Handle: func(_ context.Context, in *carrier.Incoming, _ *linkv1.Welcome) { in.Refuse(&tunnelv1.Refused{}) },
		})
		if err != nil {
			return h, err
		}
		h.agents[name] = a
		h.ended.Go(func() { a.Run(ctx) })
	}
	return h, h.all(link.Up)
}

// all waits until all agents are in a state.
func (h *herd) all(is link.Kind) error {
	return wait.Until(h.ctx, patience, "all agents are "+is.String(), func() error {
		for name, a := range h.agents {
			if state, _ := a.State(); state.Kind != is {
				return errors.Join(fmt.Errorf("the agent of %s is %s", name, state.Kind), state.Err)
			}
		}
		return nil
	})
}

func (h *herd) close() {
	if h.stop != nil {
		h.stop()
	}
	h.ended.Wait()
	h.server.Kill()
}

// herd measures how so many agents come back after they had no server for a time, and how so many tokens are revoked.
func (w *world) herd(agents int, lost time.Duration, revoked int) (out Herd, err error) {
	h, err := w.newHerd(agents)
	defer h.close()
	if err != nil {
		return out, err
	}
	out.Agents = agents
	h.server.Kill()
	if err := h.all(link.Down); err != nil {
		return out, err
	}
	if err := wait.For(w.ctx, lost); err != nil {
		return out, err
	}
	h.mu.Lock()
	h.handshakes = nil
	h.mu.Unlock()
	began := time.Now()
	if err := errors.Join(h.startServer(), h.all(link.Up)); err != nil {
		return out, err
	}
	for _, a := range h.agents {
		state, _ := a.State()
		out.Back = max(out.Back, state.Since.Sub(began))
	}
	h.mu.Lock()
	out.Busiest = busiest(h.handshakes)
	if n := len(h.handshakes); n > 1 {
		out.Rate = float64(n-1) / h.handshakes[n-1].Sub(h.handshakes[0]).Seconds()
	}
	h.mu.Unlock()
	for name := range h.agents {
		if len(out.Revoked) == revoked {
			break
		}
		took, err := h.revoke(name)
		if err != nil {
			return out, err
		}
		out.Revoked = append(out.Revoked, took)
	}
	return out, nil
}

// busiest sorts times, and returns the highest number of them within a second.
func busiest(times []time.Time) (most int) {
	slices.SortFunc(times, time.Time.Compare)
	first := 0
	for i, t := range times {
		for t.Sub(times[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// revoke removes the token of a cluster, and returns after how long its agent had no session.
func (h *herd) revoke(name string) (time.Duration, error) {
	if err := h.pause(time.Second); err != nil { // the server reads the file periodically
		return 0, err
	}
	delete(h.tokens, name)
	began := time.Now()
	if err := h.credentials(h.tokens); err != nil {
		return 0, err
	}
	late := time.After(patience)
	for {
		state, changed := h.agents[name].State()
		if state.Kind != link.Up {
			return state.Since.Sub(began), nil
		}
		select {
		case <-changed:
		case <-late:
			return 0, fmt.Errorf("the session of %s continues after its token was revoked", name)
		}
	}
}
