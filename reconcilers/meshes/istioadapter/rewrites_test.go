package istioadapter_test

import (
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
	"switchyard.dev/tests/world"
)

// TestAFieldManagerThatReplacesTheRoutes has one replace a VirtualService at least nine times without the
// operator's routes, with a webhook that restores them within each write, and without one.
func TestAFieldManagerThatReplacesTheRoutes(t *testing.T) {
	w := world.Shared(t)
	define(w)
	with := []string{"ours k1", "api", "ours k1", "rest"}
	for name, hooked := range map[string]bool{"within its writes": true, "after its writes": false} {
		t.Run("restored "+name, func(t *testing.T) {
			c := start(t, w, istioadapter.Settings{})
			run := func(stdin string, args ...string) {
				t.Helper()
				if said, err := c.kubectl(stdin, args...); err != nil {
					t.Fatal(said)
				}
			}
			if hooked {
				c.hook()
			}
			run(c.file("1s"), "create", "-f", "-")
			c.sandbox("k1")
			c.has(with...)
			noted := func() bool {
				notes := strings.Join(c.main.Report(istioadapter.Target{Key: "k1", Namespace: c.ns, Service: "customer"}).Notes, "\n")
				return strings.Contains(notes, "Field manager releaser has replaced the routes of VirtualService "+c.ns+"/customer ") && strings.Contains(notes, "istio.signadot.com/ignore=true")
			}
			for i := range 9 {
				if noted() {
					t.Fatalf("it is reported after %d writes", i)
				}
				run(c.file(fmt.Sprintf("%ds", i+2)), "replace", "--field-manager=releaser", "-f", "-")
				c.has(with...)
			}
			expect := func(what string, is bool) {
				t.Helper()
				c.Eventually(what, func() error {
					if now := noted(); now != is {
						return fmt.Errorf("reported: %v", now)
					}
					return nil
				})
			}
			expect("it is reported", true)
			run("", "annotate", "virtualservice", "customer", "-n", c.ns, rewrites.Annotation+"-")
			expect("it is no longer reported", false)
			c.has(with...)
			run("", "annotate", "virtualservice", "customer", "-n", c.ns, rewrites.Annotation+"=releaser")
			expect("it is reported again", true)
			run("", "annotate", "virtualservice", "customer", "-n", c.ns, "istio.signadot.com/ignore=true")
			c.has("api", "rest")
			c.Eventually("nothing of the operator is left", func() error {
				if said, err := c.kubectl("", "get", "virtualservice", "customer", "-n", c.ns, "-o", "jsonpath={.metadata.annotations}"); err != nil || strings.Contains(said, "rewritten-by") {
					return fmt.Errorf("%s: %w", said, err)
				}
				return nil
			})
		})
	}
}
