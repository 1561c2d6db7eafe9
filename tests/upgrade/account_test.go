package upgrade

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/tools/demo/resource"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext/store"
)

//go:embed testdata/plugin.yaml testdata/sandbox.yaml
var accountFiles embed.FS

// The namespaces with values of units: that of releases before decision record 51, and that of this one.
const earlierValues, values = "signadot", "signadot-values"

// patience is how long a step, or a controller, is waited for.
const patience = 90 * time.Second

// accounts makes sandboxes with an account (testdata/plugin.yaml): the create step gives a number
// that nothing else knows, and the delete step sends the number that it reads to the test.
type accounts struct {
	*world
	folder string
	// address is where the test listens, and closed has what delete steps sent.
	address string
	closed  chan string
	// numbers are those that create steps gave, by sandbox.
	numbers map[string]string
}

// openAccounts listens for delete steps and applies the plugin.
func openAccounts(w *world) *accounts {
	w.t.Helper()
	node := w.kubectl("", "get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	l, err := net.Listen("tcp", net.JoinHostPort(node, "0"))
	if err != nil {
		w.t.Fatalf("listen where pods of steps reach the test: %v", err)
	}
	w.t.Cleanup(func() { l.Close() })
	// /dev/tcp of bash has a slash between host and port.
	a := &accounts{world: w, folder: w.t.TempDir(), closed: make(chan string, 16), numbers: map[string]string{},
		address: fmt.Sprintf("%s/%d", node, l.Addr().(*net.TCPAddr).Port)}
	go a.listen(l)
	a.switchyard("resourceplugin", "apply", "-f", a.file("plugin.yaml"))
	return a
}

// listen receives what delete steps send until the listener is closed.
func (a *accounts) listen(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if text, _ := io.ReadAll(io.LimitReader(conn, 256)); len(text) > 0 {
			a.closed <- strings.TrimSpace(string(text))
		}
		conn.Close()
	}
}

// file writes a file of testdata, with these texts replaced, and returns its path.
func (a *accounts) file(name string, replace ...string) string {
	a.t.Helper()
	text, err := accountFiles.ReadFile("testdata/" + name)
	if err != nil {
		a.t.Fatal(err)
	}
	path := filepath.Join(a.folder, name)
	if err := os.WriteFile(path, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// switchyard runs the command line of this release and fails the test when it fails.
func (a *accounts) switchyard(args ...string) {
	a.t.Helper()
	if out, err := resource.Command(a.t.Context(), args...); err != nil {
		a.t.Fatalf("%v\n%s", err, out)
	}
}

// open makes a sandbox with an account. Its number has to be in each of these namespaces, and
// pods of its fork have it.
func (a *accounts) open(name string, namespaces ...string) {
	a.t.Helper()
	a.switchyard("sandbox", "apply", "-f", a.file("sandbox.yaml", "NAME", name, "TEST", a.address), "--wait-timeout=2m")
	for _, number := range a.read(namespaces[0]) {
		if strings.HasPrefix(number, name+"-") {
			a.numbers[name] = number
		}
	}
	a.kept(name, namespaces...)
}

// read returns the values of units in a namespace, which are numbers.
func (a *accounts) read(namespace string) (numbers []string) {
	a.t.Helper()
	var all corev1.SecretList
	out := a.kubectl("", "get", "secrets", "-n", namespace, "--field-selector=type="+string(store.Type), "-o", "json")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		a.t.Fatal(err)
	}
	for i := range all.Items {
		numbers = append(numbers, string(all.Items[i].Data[store.DataKey]))
	}
	return numbers
}

// kept waits until each of these namespaces has the number of a sandbox's account.
func (a *accounts) kept(name string, namespaces ...string) {
	a.t.Helper()
	for _, namespace := range namespaces {
		wait.Eventually(a.t, patience, fmt.Sprintf("namespace %s has the number of sandbox %s", namespace, name), func() error {
			if all := a.read(namespace); a.numbers[name] == "" || !slices.Contains(all, a.numbers[name]) {
				return fmt.Errorf("it has %q; the number is %q", all, a.numbers[name])
			}
			return nil
		})
	}
}

// forgotten waits until neither namespace has values, since their objects were deleted.
func (a *accounts) forgotten() {
	a.t.Helper()
	for _, namespace := range []string{earlierValues, values} {
		wait.Eventually(a.t, patience, "namespace "+namespace+" has no values", func() error {
			if left := a.read(namespace); len(left) > 0 {
				return fmt.Errorf("left: %q", left)
			}
			return nil
		})
	}
}

// close deletes a sandbox: its delete step has to read the number that the create step gave.
func (a *accounts) close(name string) {
	a.t.Helper()
	a.switchyard("sandbox", "delete", name, "--wait-timeout=2m")
	a.wasClosed(name)
}

// wasClosed waits until the delete step of a sandbox has sent the number of its account.
func (a *accounts) wasClosed(name string) {
	a.t.Helper()
	select {
	case got := <-a.closed:
		if got != a.numbers[name] {
			a.t.Errorf("the delete step of sandbox %s read %q, and the create step gave %q", name, got, a.numbers[name])
			return
		}
		a.t.Logf("the delete step of sandbox %s read %s, as the create step gave it", name, got)
	case <-time.After(patience):
		a.t.Errorf("no delete step of sandbox %s has sent anything; the create step gave %q", name, a.numbers[name])
	}
}
