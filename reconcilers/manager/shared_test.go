package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/world"
)

// running is a manager with default settings that runs units. Tests that need no other share it.
type running struct {
	main   *manager.Main
	log    *recordingLog
	writes *countingTransport
	end    func() error
}

// sharedOperator is the namespace of the shared manager.
const sharedOperator = "shared-operator"

// common is the shared manager while tests use it. It starts after the tests that are not parallel
// have ended, because these run managers of their own on the same API server.
var common struct {
	sync.Mutex
	*running
	users int
}

// shared runs the test in parallel with others on the shared manager, in a namespace of its own.
// Names of cluster-scoped objects and routing keys of the test are ns or begin with ns and a dash:
// the log and the writes of the returned cluster are only those of such names (owns).
func shared(t *testing.T, ns string) *cluster {
	t.Helper()
	t.Parallel()
	common.Lock()
	defer common.Unlock()
	c := &cluster{World: worldFor(t, ns), ns: ns, shares: true}
	if common.users == 0 {
		c.Create(apiserver.Namespace(sharedOperator), apiserver.Account(sharedOperator, "default"))
		common.running = c.share()
	}
	common.users++
	t.Cleanup(release(t))
	c.main, c.writes = common.main, common.writes
	c.log = &facts{recordingLog: common.log, owns: c.owns}
	c.Namespaces(ns)
	return c
}

// release returns a function that ends the use of the shared manager, and the manager after its
// last use.
func release(t *testing.T) func() {
	return func() {
		common.Lock()
		defer common.Unlock()
		if common.users--; common.users == 0 {
			if err := common.end(); err != nil {
				t.Error(err)
			}
		}
	}
}

// share starts the shared manager and waits until it has read the cluster.
func (c *cluster) share() *running {
	c.Helper()
	r := &running{log: newRecordingLog(), writes: &countingTransport{}}
	access := c.As("")
	access.Wrap(r.writes.wrap)
	// Not the context of the test, which ends before other users do.
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	r.main, err = manager.New(ctx, manager.Config{
		REST: access, Log: r.log, Workflows: units, Namespace: sharedOperator, WithoutWebhook: true, SeveralInProcess: true,
		MetricsAddress: "0", HealthAddress: "0", Logger: world.Quiet,
	})
	if err != nil {
		cancel()
		c.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.main.Run(ctx) }()
	r.end = func() error {
		early := len(ended) > 0
		cancel()
		select {
		case err := <-ended:
			if early {
				err = errors.Join(errors.New("the shared manager ended before its last test"), err)
			}
			return err
		case <-time.After(patience):
			return fmt.Errorf("the shared manager continues %s after it was stopped", patience)
		}
	}
	c.Eventually("the routing log is complete", r.main.LogReady)
	return r
}

// owns reports whether a path or a key names the test's namespace, or an object of the test's. On a
// manager of the test's own that is true of all.
func (c *cluster) owns(path string) bool {
	return !c.shares || slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool {
		return part == c.ns || strings.HasPrefix(part, c.ns+"-")
	})
}

// wrote returns the writes of the manager to objects that the test owns.
func (c *cluster) wrote() []string {
	return slices.DeleteFunc(c.writes.list(), func(write string) bool { return !c.owns(write) })
}

// names are the namespaces of tests on the API server that the tests of this package share.
var names struct {
	sync.Mutex
	taken map[string]bool
}

// worldFor returns the API server that the tests of this package share. If a test runs again (-count)
// that is a new one: its names exist on the previous one.
func worldFor(t testing.TB, ns string) *world.World {
	t.Helper()
	names.Lock()
	defer names.Unlock()
	if names.taken[ns] {
		world.Renew(t)
		names.taken = nil
	}
	if names.taken == nil {
		names.taken = map[string]bool{}
	}
	names.taken[ns] = true
	return world.Shared(t)
}
