package workflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tests/sweep/workflows/kubelet"
	"switchyard.dev/tests/sweep/workflows/ledger"
	"switchyard.dev/tools/samples"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/server"
)

// The namespaces: where the operator and units are, and where outputs are wanted.
const (
	operatorNamespace = "signadot"
	valuesNamespace   = "signadot-values"
	outputNamespace   = "sweep"
)

// World is an API server, a ledger, and what runs stand on. Make one with NewWorld; one run
// after the other uses it.
type World struct {
	api    *apiserver.Server
	ledger *ledger.Ledger
	logger *slog.Logger
	// people is the client of users, which bypasses every fault.
	people client.WithWatch
	kube   kubernetes.Interface
	// plain reaches the API server without credentials.
	plain http.RoundTripper

	dir    string
	images map[string]kubelet.Image
	// port is where the IO context server listens, and pair its certificate, which the way to
	// the API server has as well.
	port int
	pair selfsigned.Pair
	// account is the token of the server's service account.
	account string
	runs    int
}

// Images of containers.
const (
	imageInit    = "io-init"
	imageSidecar = "io-sidecar"
	imageMain    = "debian"
)

// Folders of service accounts and certificates in containers.
const (
	accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	tlsDir     = "/var/run/secrets/tls"
)

// NewWorld starts an API server and a ledger, and builds the programs. It needs root. The logger
// gets the log of managers. Close ends everything; after an error that has been done.
func NewWorld(ctx context.Context, logger *slog.Logger) (w *World, err error) {
	w = &World{logger: logger}
	if w.dir, err = os.MkdirTemp("", "sweep-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	system, err := samples.System(ctx, iocontext.Root)
	if err != nil {
		return w, err
	}
	root, err := crd.Root()
	if err != nil {
		return w, err
	}
	programs, err := build(ctx, root, filepath.Join(w.dir, "programs"))
	if err != nil {
		return w, err
	}
	w.images = map[string]kubelet.Image{
		imageMain: {Root: system}, imageInit: {Root: programs, Entrypoint: "/io-init"}, imageSidecar: {Root: programs, Entrypoint: "/io-sidecar"},
	}
	if w.port, err = port.Free(); err != nil {
		return w, err
	}
	if w.pair, err = selfsigned.New(server.Name, net.IPv4(127, 0, 0, 1)); err != nil {
		return w, err
	}
	if w.ledger, err = ledger.Start(ctx, system, filepath.Join(w.dir, "ledger")); err != nil {
		return w, err
	}
	if w.api, err = apiserver.Start(); err != nil {
		return w, err
	}
	return w, w.open(ctx)
}

// build builds the programs of the workflows into the folder that is their file system.
func build(ctx context.Context, root, to string) (string, error) {
	for _, folder := range []string{iocontext.Root, filepath.Dir(iocontext.TokenPath), accountDir, tlsDir, "dev", "tmp", "etc"} {
		if err := os.MkdirAll(filepath.Join(to, folder), 0o755); err != nil {
			return "", err
		}
	}
	names := fmt.Sprintf("127.0.0.1 localhost %s\n", server.Name)
	if err := os.WriteFile(filepath.Join(to, "etc", "hosts"), []byte(names), 0o644); err != nil { //nolint:gosec // Every user reads it.
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", to+"/", "./workflows/cmd/...")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs of workflows: %w: %s", err, out)
	}
	return to, nil
}

// open makes what runs have in common in the API server.
func (w *World) open(ctx context.Context) (err error) {
	if w.people, err = w.api.Client(); err != nil {
		return err
	}
	if w.kube, err = kubernetes.NewForConfig(w.api.Config); err != nil {
		return err
	}
	if w.plain, err = rest.TransportFor(rest.AnonymousClientConfig(w.api.Config)); err != nil {
		return err
	}
	err = apiserver.Create(ctx, w.people, apiserver.Namespace(operatorNamespace), apiserver.Namespace(valuesNamespace), apiserver.Namespace(outputNamespace),
		apiserver.Account(operatorNamespace, "default"))
	if err != nil {
		return err
	}
	err = apiserver.EachFromChart("default", func(o *unstructured.Unstructured) error {
		switch o.GetKind() + " " + o.GetName() {
		case "ServiceAccount " + serverName, "Role signadot-" + serverName, "RoleBinding signadot-" + serverName,
			"ClusterRole signadot-" + serverName, "ClusterRoleBinding signadot-" + serverName:
			return w.people.Create(ctx, o)
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.account, err = apiserver.Token(ctx, w.kube, operatorNamespace, serverName, "", nil)
	return err
}

// Close ends everything.
func (w *World) Close() error {
	var errs []error
	if w.api != nil {
		errs = append(errs, w.api.Stop())
	}
	if w.ledger != nil {
		errs = append(errs, w.ledger.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
