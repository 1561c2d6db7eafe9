// Package world is the cluster of a test: a real API server with our definitions, of the
// test's own or shared by those of its package, the objects in it, and waiting for what
// becomes of them. No controller of Kubernetes runs in it: a test plays those that it needs.
package world

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tools/wait"
)

// Patience is how long a test waits for what must come, on a machine that is busy.
const Patience = time.Minute

// World is the cluster of a test, as its administrator sees it.
type World struct {
	testing.TB
	*apiserver.Server
	// Client has the kinds of Kubernetes, those of the operator and definitions in its scheme.
	Client client.WithWatch
	// Kube is the same access by another library, which many parts take.
	Kube kubernetes.Interface
}

// shared is the API server of all tests of a package that uses Main as its TestMain.
var shared *apiserver.Server

// Main runs the tests of a package with one API server, since one takes longer to start than
// most tests, and calls after them what cleans up. It is for TestMain and does not return.
func Main(m *testing.M, after ...func()) {
	code, err := run(m)
	for _, f := range after {
		f()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.FromSlogHandler(Quiet.Handler()))
	if shared, err = apiserver.Start(); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, shared.Stop()
}

// Shared returns the cluster that the tests of a package share.
func Shared(t testing.TB) *World {
	t.Helper()
	if shared == nil {
		t.Fatal("the package needs a TestMain that calls world.Main")
	}
	return at(t, shared)
}

// Renew replaces the API server that the tests of a package share with a new one, and stops the
// previous one, which no test may be using.
func Renew(t testing.TB) {
	t.Helper()
	next, err := apiserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Stop(); err != nil {
		t.Error(err)
	}
	shared = next
}

// New returns a cluster of the test's own. flags are further ones of the API server, as
// name=value.
func New(t testing.TB, flags ...string) *World {
	t.Helper()
	return own(t, apiserver.Start, flags)
}

// Bare returns one without our definitions.
func Bare(t testing.TB, flags ...string) *World {
	t.Helper()
	return own(t, apiserver.Bare, flags)
}

func own(t testing.TB, start func(flags ...string) (*apiserver.Server, error), flags []string) *World {
	t.Helper()
	ctrl.SetLogger(logr.FromSlogHandler(Quiet.Handler()))
	server, err := start(flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return at(t, server)
}

func at(t testing.TB, server *apiserver.Server) *World {
	t.Helper()
	w := &World{TB: t, Server: server}
	var err error
	w.Client, err = server.Client()
	w.Must(err)
	w.Kube = kubernetes.NewForConfigOrDie(server.Config)
	return w
}

// In returns the same cluster for a part of the test.
func (w *World) In(t testing.TB) *World {
	part := *w
	part.TB = t
	return &part
}

// As returns the client configuration of a user in these groups; that of the administrator for "".
func (w *World) As(user string, groups ...string) *rest.Config {
	access := rest.CopyConfig(w.Config)
	if user != "" {
		access.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	}
	return access
}

// ClientWith returns a client that knows the kinds of a scheme.
func (w *World) ClientWith(access *rest.Config, scheme func() (*runtime.Scheme, error)) client.WithWatch {
	w.Helper()
	kinds, err := scheme()
	w.Must(err)
	c, err := client.NewWithWatch(access, client.Options{Scheme: kinds})
	w.Must(err)
	return c
}

// Must ends the test at an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Eventually waits until check finds nothing wrong.
func (w *World) Eventually(what string, check func() error) {
	w.Helper()
	wait.Eventually(w, Patience, what, check)
}

// RoundTrip is a function that does what a transport does.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
