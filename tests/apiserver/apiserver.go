// Package apiserver starts a real API server and etcd for tests, with the
// chart's CRDs in it. The binaries are those that tools/cluster builds.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/program"
	"switchyard.dev/tools/cache"
)

// patience is how long it may take to come up or to end on a busy machine.
const patience = 5 * time.Minute

// Server is a running API server.
type Server struct {
	// Config reaches it as an administrator, without limits on requests.
	Config *rest.Config
	// Kubeconfig is the same as a file, for kubectl and other programs.
	Kubeconfig string
	// Keys is the folder with its keys and certificates.
	Keys        string
	environment *envtest.Environment
	// data is the directory of etcd's data, if it was created here and not by envtest.
	data string

	// arguments start the API server again after it was killed, again is the one that
	// was; nil when envtest's is running, or none.
	arguments []string
	again     *program.Program
}

// Start starts an API server that has our CRDs. flags are further ones of the API server, as
// name=value without dashes, in place of those that it has. Stop ends it.
func Start(flags ...string) (*Server, error) {
	if len(flags) == 0 {
		return startDefined()
	}
	// What others have kept may contradict the flags, such as the addresses of Services.
	crds, err := customResources()
	if err != nil {
		return nil, err
	}
	s, err := Bare(flags...)
	if err != nil {
		return nil, err
	}
	if err := s.install(crds); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Bare starts an API server without our CRDs.
func Bare(flags ...string) (*Server, error) { return startOn("", flags...) }

// startOn starts an API server on the data of an etcd in a folder; on none, for "".
func startOn(data string, flags ...string) (*Server, error) {
	s := &Server{environment: &envtest.Environment{BinaryAssetsDirectory: Binaries(),
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience}}
	s.environment.ControlPlane.Etcd = &envtest.Etcd{DataDir: data}
	api := s.environment.ControlPlane.GetAPIServer()
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		api.Configure().Set(name, value)
	}
	if err := s.open(); err != nil {
		// If the start fails midway, the processes already started must be stopped.
		_ = s.environment.Stop()
		return nil, fmt.Errorf("start an API server (the binaries come from `go run -C tools/cluster . build --only apiserver`): %w", err)
	}
	return s, nil
}

func (s *Server) open() (err error) {
	if s.Config, err = s.environment.Start(); err != nil {
		return err
	}
	s.Config.QPS, s.Config.Burst = 1000, 1000
	s.Keys = s.environment.ControlPlane.GetAPIServer().CertDir
	s.Kubeconfig = filepath.Join(s.Keys, "kubeconfig")
	return os.WriteFile(s.Kubeconfig, s.environment.KubeConfig, 0o600)
}

// Client returns a client of an administrator with the kinds of Kubernetes, those of the operator,
// and definitions in its scheme.
func (s *Server) Client() (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(kubernetesscheme.AddToScheme(scheme), crdv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(s.Config, client.Options{Scheme: scheme})
}

// Create creates objects, in order.
func (s *Server) Create(ctx context.Context, objects ...client.Object) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	return Create(ctx, c, objects...)
}

// Create creates objects, in order, with a client.
func Create(ctx context.Context, c client.Writer, objects ...client.Object) error {
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// Namespace returns a namespace to create.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Account returns a service account to create.
func Account(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// Access is how another process reaches the API server as an administrator.
type Access struct {
	Host          string
	CA, Cert, Key []byte
}

// Access returns how it is reached.
func (s *Server) Access() Access {
	return Access{s.Config.Host, s.Config.CAData, s.Config.CertData, s.Config.KeyData}
}

// Config returns the configuration of a client.
func (a Access) Config() *rest.Config {
	return &rest.Config{Host: a.Host, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA, CertData: a.Cert, KeyData: a.Key}}
}

// install has the API server serve our definitions.
func (s *Server) install(crds []*apiextensionsv1.CustomResourceDefinition) error {
	if _, err := envtest.InstallCRDs(s.Config, envtest.CRDInstallOptions{CRDs: crds, MaxTime: patience}); err != nil {
		return fmt.Errorf("install our definitions: %w", err)
	}
	return nil
}

func customResources() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	root, err := crd.Root()
	if err != nil {
		return nil, err
	}
	return crd.Render(root, nil)
}

// Binaries is the folder with etcd, kube-apiserver, kubectl and helm:
// $KUBEBUILDER_ASSETS, or where tools/cluster puts them.
func Binaries() string {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir
	}
	return filepath.Join(cache.Dir(), "bin", "current")
}

// Stop ends the API server and etcd.
func (s *Server) Stop() error {
	s.stopAgain()
	err := s.environment.Stop()
	if s.data != "" {
		err = errors.Join(err, os.RemoveAll(s.data))
	}
	return err
}
