package istioadapter_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter"
)

// TestOwnershipIsGivenUpAfterAFailedWrite fails the request that gives up the operator's ownership, once:
// the routes exist then, and nothing else would cause another write.
func TestOwnershipIsGivenUpAfterAFailedWrite(t *testing.T) {
	c := started(t)
	c.hook()
	c.away.Store(true)
	c.owner("apply", "--server-side")
	c.failAt.Store(3)
	c.sandbox("k1")
	c.has("ours k1", "api", "ours k1", "rest")
	c.heldByOwner()
	if c.failAt.Load() > 0 {
		t.Error("no request failed")
	}
	c.withdraw("k1")
	c.has("api", "rest")
}

// TestALostRaceIsNoFailure makes another client write between two requests of one write, twice.
func TestALostRaceIsNoFailure(t *testing.T) {
	c := started(t)
	c.hook()
	c.away.Store(true)
	c.owner("create")
	n := 0
	c.before = func(q *http.Request) {
		if n++; q.Method == http.MethodPatch && (n == 2 || n == 4) {
			u := c.virtualService()
			change := client.MergeFrom(u.DeepCopy())
			u.SetLabels(map[string]string{"of": time.Now().Format("150405.000000")})
			c.Must(c.Client.Patch(context.Background(), u, change))
		}
	}
	c.sandbox("k1")
	c.has("ours k1", "api", "ours k1", "rest")
	c.heldByOwner()
	if n := c.failures.Load(); n > 0 {
		t.Errorf("%d writes count as failed", n)
	}
}

// TestClientsThatRemoveRoutesAreReported has another webhook remove the operator's routes from each write.
func TestClientsThatRemoveRoutesAreReported(t *testing.T) {
	c := started(t)
	c.hook()
	c.meddles.Store(true)
	c.owner("create")
	c.sandbox("k1")
	target := istioadapter.Target{Key: "k1", Namespace: c.ns, Service: "customer"}
	c.Eventually("the report says that something takes them out", func() error {
		r := c.main.Report(target)
		if len(r.Matches) != 1 || r.Matches[0].Status != istioadapter.StatusFailed {
			return errors.New("it does not")
		}
		return nil
	})
	c.Says(c.main.Report(target).Matches[0].Message, "another mutating webhook changes the operator's routes", "Exclude from it routes")
	c.meddles.Store(false)
	c.has("ours k1", "api", "ours k1", "rest")
}

// TestOneKeyDoesNotAnswerForAnother has no write succeed after the first sandbox.
func TestOneKeyDoesNotAnswerForAnother(t *testing.T) {
	c := started(t)
	c.owner("create")
	c.sandbox("k1")
	c.has("ours k1", "api", "ours k1", "rest")
	c.heldByOwner()
	c.fails.Store(true)
	c.sandbox("k2")
	status := func(key string) string {
		if r := c.main.Report(istioadapter.Target{Key: key, Namespace: c.ns, Service: "customer"}); len(r.Matches) == 1 {
			return r.Matches[0].Status
		}
		return ""
	}
	c.Eventually("the new key has no routes", func() error {
		if s := status("k2"); s != istioadapter.StatusFailed {
			return errors.New(s)
		}
		return nil
	})
	if s := status("k1"); s != istio.StatusApplied {
		t.Errorf("the old key is %s, whose routes are there", s)
	}
	c.withdraw("k2")
	c.Eventually("the new key is settled, which has no routes", func() error {
		if !c.main.Settled("k2") {
			return errors.New("it is not")
		}
		return nil
	})
	c.withdraw("k1")
	for range 20 {
		if c.main.Settled("k1") {
			t.Fatal("the old key is settled, whose routes are there")
		}
		<-time.After(50 * time.Millisecond)
	}
	c.fails.Store(false)
	c.has("api", "rest")
}

// TestAWebhookThatIsAwayIsNotAskedForAgain counts the requests for a second sandbox.
func TestAWebhookThatIsAwayIsNotAskedForAgain(t *testing.T) {
	c := started(t)
	c.hook()
	c.away.Store(true)
	c.owner("create")
	c.sandbox("k1")
	c.has("ours k1", "api", "ours k1", "rest")
	c.heldByOwner()
	c.writes.Store(0)
	c.sandbox("k2")
	c.has("ours k1", "ours k2", "api", "ours k1", "ours k2", "rest")
	c.heldByOwner()
	if n := c.writes.Load(); n > 2 {
		t.Errorf("we sent %d requests, not the routes and that they are nobody's", n)
	}
}

// TestAWebhookThatIsNotAskedInOneNamespaceIsAskedInOthers has the webhook registered for one of
// two namespaces.
func TestAWebhookThatIsNotAskedInOneNamespaceIsAskedInOthers(t *testing.T) {
	c := started(t)
	c.hook()
	c.owner("create")
	apart := &cluster{World: c.World, ns: c.NewNamespace("apart"), log: c.log}
	if said, err := c.kubectl(strings.Replace(c.file("1s"), "namespace: "+c.ns, "namespace: "+apart.ns, 1), "create", "-f", "-"); err != nil {
		t.Fatal(said)
	}
	for _, key := range []string{"k1", "k2"} {
		apart.sandbox(key)
	}
	apart.has("ours k1", "ours k2", "api", "ours k1", "ours k2", "rest")
	apart.heldByOwner()
	c.writes.Store(0)
	c.sandbox("k3")
	c.has("ours k3", "api", "ours k3", "rest")
	c.heldByOwner()
	if n := c.writes.Load(); n != 1 {
		t.Errorf("where the webhook answers we sent %d requests, not the annotation alone", n)
	}
}

// bare returns the routes of a VirtualService without the operator's.
func bare(u *unstructured.Unstructured) []any { return list(istio.Strip(u)) }

// list returns the routes of a VirtualService.
func list(u *unstructured.Unstructured) []any {
	all, _, _ := unstructured.NestedSlice(u.Object, "spec", "http")
	return all
}
