package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// world is the cluster as the tests see it.
type world struct {
	t        *testing.T
	customer traffic.Sender
	rest     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	w.customer = demo.CustomerSender(w.url("hotrod", "customer", 8081))
	w.rest = w.url("signadot", "routeserver", 7778)
	return w
}

func (w *world) url(namespace, name string, port int) string {
	w.t.Helper()
	url, err := demo.ServiceURL(w.t.Context(), namespace, name, port)
	if err != nil {
		w.t.Fatal(err)
	}
	return url
}

// kubectl runs kubectl and fails the test when it does.
func (w *world) kubectl(stdin string, args ...string) string {
	w.t.Helper()
	out, err := demo.Kubectl(w.t.Context(), stdin, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// sandbox applies a sandbox that forks customer, waits until it is ready, and
// takes it away when the test ends. name is its routing key too.
func (w *world) sandbox(name string) {
	w.t.Helper()
	w.kubectl(sandboxManifest(name, "customer"), "apply", "-f", "-")
	w.removeAfter("signadotsandbox", name)
	w.kubectl("", "wait", "signadotsandbox/"+name, "--for=condition=Ready", "--timeout=120s")
	w.eventually("the fork serves its key", 20*time.Second, func() error {
		return w.serves(name, traffic.Fork)
	})
}

// removeAfter deletes an object when the test ends.
func (w *world) removeAfter(kind, name string) {
	w.t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		if _, err := demo.Kubectl(ctx, "", "delete", kind, name, "--ignore-not-found", "--timeout=60s"); err != nil {
			w.t.Error(err)
		}
	})
}

func sandboxManifest(name, workload string) string {
	return fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"SignadotSandbox","metadata":{"name":%[1]q},
"spec":{"id":%[1]q,"name":%[1]q,"customization":{"patches":[{
  "target":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"hotrod","name":%[2]q},
  "strategic":{"spec":{"template":{"spec":{"containers":[{"name":"hotrod","image":"switchyard.dev/demo-customer:dev","args":[]}]}}}}}]}}}`,
		name, workload)
}

// declare applies a RoutingConfig with a fresh key for a sandbox's fork.
func (w *world) declare(key, sandbox string) {
	w.t.Helper()
	fork := w.kubectl("", "get", "forkedworkloads", "-n", "hotrod", "-l", "signadot.com/sandbox="+sandbox, "-o", "jsonpath={.items[0].metadata.name}")
	manifest := fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"RoutingConfig","metadata":{"name":%q},
"spec":{"sandboxedWorkloads":[{"kind":"ForkedWorkload","namespace":"hotrod","name":%q,"sandboxName":%q}]}}`, key, fork, sandbox)
	// A pod is ready a moment before it is an endpoint of its Service, and the manager reviews declarations.
	w.eventually("the declaration is accepted", 60*time.Second, func() error {
		_, err := demo.Kubectl(w.t.Context(), manifest, "apply", "-f", "-")
		return err
	})
	w.removeAfter("routingconfig", key)
}

// serves returns nil when a request with the key is served by that side.
func (w *world) serves(key string, want traffic.Side) error {
	side, err := w.customer.Send(w.t.Context(), key)
	if err == nil && side != want {
		err = fmt.Errorf("key %q is served by the %s", key, side)
	}
	return err
}

// eventually waits until check has nothing to complain of.
func (w *world) eventually(what string, within time.Duration, check func() error) {
	w.t.Helper()
	wait.Eventually(w.t, within, what, check)
}

// under runs body under 50 requests a second to the customer service, and fails
// the test unless each was served by the right side.
func (w *world) under(key string, body func()) {
	w.t.Helper()
	stop, done := make(chan struct{}), make(chan *traffic.Ledger)
	go func() { done <- w.customer.Rate(w.t.Context(), 50, demo.Mix(key), stop) }()
	finished := false
	defer func() {
		close(stop)
		ledger := <-done
		w.t.Log(ledger)
		if finished && !ledger.Clean() {
			w.t.Error("requests failed or were served by the wrong side")
		}
	}()
	body()
	finished = true
}

// kill sends SIGKILL to every process that runs the program in one of the pods
// that the selector finds, and returns how many there were.
func (w *world) kill(program, selector string) int {
	w.t.Helper()
	killed := 0
	for _, pid := range w.processes(program, selector) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			killed++
		}
	}
	return killed
}

// processes returns the processes that run the program in the pods that the selector finds. Another
// cluster on the same machine may run the same program: what counts is the pod's UID in the
// process's cgroup.
func (w *world) processes(program, selector string) (pids []int) {
	w.t.Helper()
	uids := strings.Fields(w.kubectl("", "get", "pods", "-n", "signadot", "-l", selector, "-o", "jsonpath={.items[*].metadata.uid}"))
	entries, err := os.ReadDir("/proc")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		cgroup, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cgroup"))
		if argv0, _, _ := strings.Cut(string(cmdline), "\x00"); argv0 == program && ofPod(string(cgroup), uids) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ofPod reports whether a cgroup is that of a container of one of the pods. With
// systemd's names the dashes of a UID are underscores.
func ofPod(cgroup string, uids []string) bool {
	cgroup = strings.ReplaceAll(cgroup, "_", "-")
	return slices.ContainsFunc(uids, func(uid string) bool { return strings.Contains(cgroup, "pod"+uid) })
}

// ready waits until every pod that the selector finds has restarted since and
// is ready.
func (w *world) ready(selector string, restarts int) {
	w.t.Helper()
	w.eventually("pods "+selector+" are back", 60*time.Second, func() error {
		if now := w.restarts(selector); now < restarts {
			return fmt.Errorf("%d restarts, want %d", now, restarts)
		}
		_, err := demo.Kubectl(w.t.Context(), "", "wait", "pod", "-n", "signadot", "-l", selector, "--for=condition=Ready", "--timeout=60s")
		return err
	})
}

// restarts adds up how often containers of the pods have started again.
func (w *world) restarts(selector string) int {
	w.t.Helper()
	out := w.kubectl("", "get", "pods", "-n", "signadot", "-l", selector, "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}")
	total := 0
	for _, field := range strings.Fields(out) {
		n, err := strconv.Atoi(field)
		if err != nil {
			w.t.Fatalf("restart counts of %s: %q", selector, out)
		}
		total += n
	}
	return total
}

// rules asks the REST API for the rules of a key, and returns the table's epoch
// with them.
func (w *world) rules(key string) (epoch string, count int, err error) {
	a, err := traffic.Get(w.t.Context(), http.DefaultClient, w.rest+"/api/v1/workloads/routing-rules?routingKey="+key)
	if err != nil {
		return "", 0, err
	}
	if a.Status != http.StatusOK {
		return "", 0, fmt.Errorf("status %d: %s", a.Status, a.Body)
	}
	var answer struct {
		RoutingRules []json.RawMessage `json:"routingRules"`
	}
	if err := json.Unmarshal(a.Body, &answer); err != nil {
		return "", 0, err
	}
	epoch, _, _ = strings.Cut(a.Header.Get("Switchyard-Table"), "/")
	return epoch, len(answer.RoutingRules), nil
}
