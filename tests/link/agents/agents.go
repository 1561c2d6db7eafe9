// Package agents runs the agent's side of the link beside the control plane of a test.
package agents

import (
	"context"
	"sync"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tunnels/attempts"
)

// Patience is how long a test waits for a state.
const Patience = time.Minute

// Hello returns the function for the Hello of an instance in a cluster.
func Hello(uid, instance string) func(context.Context) (*linkv1.Hello, error) {
	return func(context.Context) (*linkv1.Hello, error) {
		return &linkv1.Hello{Version: admission.Version, ClusterUid: uid, Instance: instance, OperatorVersion: "test"}, nil
	}
}

// Config returns the configuration of an agent with short pauses, which trusts the authorities of a bundle. The
// caller adds Token, Handle and Logger.
func Config(t testing.TB, address, instance string, bundle []byte) link.Config {
	t.Helper()
	roots := trust.NewRoots("the test")
	if err := roots.Set(bundle); err != nil {
		t.Fatal(err)
	}
	return link.Config{
		Address: address, Verify: roots.Verify, Hello: Hello("uid-1", instance),
		Policy: attempts.Policy{
			Shortest: time.Millisecond, Longest: 50 * time.Millisecond, Brisk: 50 * time.Millisecond, Fresh: time.Hour,
			Patience: attempts.Endless, MaxGap: time.Hour, FullJitter: true,
		},
	}
}

// Start begins an agent, which ends with the test or when stop is called.
func Start(t testing.TB, cfg link.Config) (a *link.Agent, stop func()) {
	t.Helper()
	a, err := link.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	return a, stop
}

// Becomes waits for a state of an agent.
func Becomes(t testing.TB, a *link.Agent, what string, is func(link.State) bool) link.State {
	t.Helper()
	deadline := time.After(Patience)
	for {
		state, changed := a.State()
		if is(state) {
			return state
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the agent does not become %s: %s, %v", what, state.Kind, state.Err)
		}
	}
}

// Up waits for a session of at least an epoch.
func Up(t testing.TB, a *link.Agent, epoch uint64) link.State {
	t.Helper()
	return Becomes(t, a, "up", func(s link.State) bool { return s.Kind == link.Up && s.Welcome.GetEpoch() >= epoch })
}
