package workflows

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/tests/wait"
	"switchyard.dev/tools/demo/resource"
)

// sample is one of workflows/samples, and how it is seen to work.
type sample struct {
	// sandbox is the name of its sandbox, and its routing key; resource that of its resource.
	sandbox, resource string
	// works checks that requests with the key use the sandbox's own store, and others the
	// baseline's. gone checks that nothing is left in the store.
	works, gone func(s *shop)
}

var all = map[string]sample{
	"postgres": {
		"ana", "db", func(s *shop) {
			s.answers(s.customers, "ana", "Ada,Grace")
			s.answers(s.customers, "", "Zoe")
		}, func(s *shop) { s.noDatabase("sandbox-ana") },
	},
	"opentofu": {
		"ben", "db", func(s *shop) {
			s.answers(s.customers, "ben", "Ada,Grace")
			s.answers(s.customers, "", "Zoe")
		}, func(s *shop) { s.noDatabase("stack-ben") },
	},
	"queue": {"cleo", "parcels", worksOnMessages, func(s *shop) {
		if _, err := s.queue.Stream(s.t.Context(), "parcels-cleo"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			s.t.Errorf("the sandbox's stream is left: %v", err)
		}
	}},
	"python": {
		"dora", "tenant", func(s *shop) {
			s.answers(s.podinfo, "dora", `"message": "tenant-dora"`)
			s.answers(s.podinfo, "", `"message": "greetings from podinfo`)
			s.answers(s.podinfo+"/cache/tenant-dora", "", `{"tenant": "tenant-dora", "users": [{"name": "Ada"}, {"name": "Grace"}]}`)
		}, func(s *shop) { s.answers(s.podinfo+"/cache/tenant-dora", "", "404") },
	},
	"helm": {"emil", "store", func(s *shop) { s.caches("emil") }, func(*shop) {}},
	"kubernetes": {
		"finn", "store", func(s *shop) {
			s.answers(s.podinfo+"/cache/greeting", "finn", "hello from finn")
			s.answers(s.podinfo+"/cache/greeting", "", "404")
			s.caches("finn")
		}, func(*shop) {},
	},
}

// noDatabase checks that the PostgreSQL server has neither a database nor a user of that name.
func (s *shop) noDatabase(name string) {
	s.t.Helper()
	if left := s.psql("postgres", "SELECT datname FROM pg_database WHERE datname = '"+name+"' UNION SELECT rolname FROM pg_roles WHERE rolname = '"+name+"'"); left != "" {
		s.t.Errorf("left in the PostgreSQL server: %s", left)
	}
}

// caches writes into podinfo's cache with the key, and reads it with and without.
func (s *shop) caches(key string) {
	s.t.Helper()
	s.writes("order-"+key, key, "of the sandbox")
	s.answers(s.podinfo+"/cache/order-"+key, key, "of the sandbox")
	s.answers(s.podinfo+"/cache/order-"+key, "", "404")
}

// worksOnMessages sends a message to the sandbox's stream and one to the baseline's: each is
// taken by its own worker.
func worksOnMessages(s *shop) {
	s.t.Helper()
	before, err := s.worked("parcels")
	s.must(err)
	for stream, want := range map[string]uint64{"parcels-cleo": 1, "parcels": before + 1} {
		_, err := s.queue.Publish(s.t.Context(), stream+".one", []byte("a parcel"))
		s.must(err)
		wait.Eventually(s.t, 30*time.Second, "a message of stream "+stream+" is worked on", func() error {
			n, err := s.worked(stream)
			if err == nil && n != want {
				err = errors.New("it is not yet")
			}
			return err
		})
	}
}

// TestEachSample takes each through its life: plugin, sandbox, its own store, and an end that
// leaves nothing.
func TestEachSample(t *testing.T) {
	for name, one := range all {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			folder := t.TempDir()
			s.must(resource.Sample(folder, name))
			if rights := filepath.Join(folder, "rbac.yaml"); exists(rights) {
				s.kubectl("", "apply", "-f", rights)
			}
			s.switchyard("resourceplugin", "apply", "-f", filepath.Join(folder, "plugin.yaml"))
			before, err := resource.Look(t.Context())
			s.must(err)
			t.Cleanup(func() { // Its own context has ended by now.
				_, _ = resource.Command(context.Background(), "sandbox", "delete", one.sandbox)
			})
			s.switchyard("sandbox", "apply", "-f", filepath.Join(folder, "sandbox.yaml"), "--wait-timeout", "4m")
			s.tells(name, one)
			one.works(s)
			s.switchyard("sandbox", "delete", one.sandbox)
			wait.Eventually(t, time.Minute, "nothing is left", func() error {
				now, err := resource.Look(t.Context())
				if err == nil && now.Since(before).String() != "" {
					err = errors.New("left: " + now.Since(before).String())
				}
				return err
			})
			one.gone(s)
			s.switchyard("resourceplugin", "delete", name)
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// switchyard runs the command line and fails the test when it does, with what is known of
// resources.
func (s *shop) switchyard(args ...string) string {
	s.t.Helper()
	out, err := resource.Command(s.t.Context(), args...)
	if err != nil {
		for _, more := range [][]string{{"resource", "list"}, {"resource", "list", "-o", "yaml"}} {
			told, _ := resource.Command(s.t.Context(), more...)
			s.t.Log(told)
		}
		s.t.Fatal(err)
	}
	return out
}

// tells checks that the command line shows every step of the resource as done, and no value.
func (s *shop) tells(name string, one sample) {
	s.t.Helper()
	out := s.switchyard("resource", "get", "--sandbox", one.sandbox, one.resource)
	if strings.Contains(out, "To do") || !strings.Contains(out, "Succeeded") || strings.Contains(out, "postgres://") {
		s.t.Errorf("%s:\n%s", name, out)
	}
	s.switchyard("logs", "--sandbox", one.sandbox, "--resource", one.resource, "-f")
}
