package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tools/traffic"
)

// TestNoKeyStraysDuringARestore restores the RoutingConfig and the member of a routing key as backup
// tools do, while requests with this key are sent: none may reach the member's baseline.
func TestNoKeyStraysDuringARestore(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("STRAYS_ROUNDS")) // none: one
	s := newStrays(t)
	for range max(rounds, 1) {
		for _, owners := range []bool{true, false} {
			t.Run(fmt.Sprintf("the RoutingConfig and the member are restored, with owners: %t", owners), func(t *testing.T) {
				s.t = t
				s.restore(owners)
			})
		}
	}
	s.t = t
	figures.Text(os.Stdout, "STRAYS_KEYED_AT_BASELINE_RESTORE", s.strayed, fmt.Sprintf("of %d keyed requests", s.sent), "0", s.strayed == 0)
}

// restore deletes the sandbox and creates copies of its RoutingConfig and of its member, then the
// sandbox. From the moment at which sidecars know the restored key its requests must not reach the
// baseline. The copies have to be adopted.
func (s *strays) restore(owners bool) {
	s.t.Helper()
	config, member := s.copied(owners, "routingconfig", s.name), s.copied(owners, "-n", s.name, "forkedworkload", "-l", "signadot.com/sandbox="+s.name)
	s.kubectl("", "delete", "signadotsandbox", s.name, "--timeout=120s")
	s.eventually("the sidecar has forgotten the key", 60*time.Second, func() error { return s.serves(s.name, traffic.Baseline) })
	s.kubectl(config, "create", "-f", "-")
	s.eventually("the sidecar knows the restored key", 60*time.Second, func() error {
		if s.serves(s.name, traffic.Baseline) == nil {
			return errors.New("the baseline serves it")
		}
		return nil
	})
	s.keyed(func() {
		s.kubectl(member, "create", "-f", "-")
		s.apply(s.sandboxManifest())
		s.eventually("the restored objects have the sandbox as their owner", 60*time.Second, s.owned)
	})
}

// copied returns objects as a backup tool keeps them: without what the API server gives.
func (s *strays) copied(owners bool, which ...string) string {
	s.t.Helper()
	var o map[string]any
	text := s.kubectl("", append([]string{"get", "-o", "json"}, which...)...)
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		s.t.Fatal(err)
	}
	if items, list := o["items"].([]any); list {
		if len(items) != 1 {
			s.t.Fatalf("there are %d of %q", len(items), which)
		}
		o = items[0].(map[string]any)
	}
	delete(o, "status")
	metadata := o["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "finalizers"} {
		delete(metadata, field)
	}
	if !owners {
		delete(metadata, "ownerReferences")
	}
	out, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

// owned returns an error until the RoutingConfig and the member have an owner.
func (s *strays) owned() error {
	const path = "jsonpath={.metadata.ownerReferences[*].kind}{.items[*].metadata.ownerReferences[*].kind}"
	config := s.kubectl("", "get", "routingconfig", s.name, "-o", path)
	member := s.kubectl("", "get", "forkedworkloads", "-n", s.name, "-l", "signadot.com/sandbox="+s.name, "-o", path)
	if config != "SignadotSandbox" || member != "SignadotSandbox" {
		return fmt.Errorf("owners are %q and %q", config, member)
	}
	return nil
}
