// Package apiserver starts a real API server and etcd for tests, with the
// chart's CRDs in it. The binaries are those that tools/cluster builds.
package apiserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tools/cache"
)

// patience is how long it may take to come up or to end on a busy machine.
const patience = 2 * time.Minute

// Server is a running API server.
type Server struct {
	// Config reaches it as an administrator, without limits on requests.
	Config      *rest.Config
	environment *envtest.Environment

	// arguments start the API server again after it was killed, again is the one that
	// was; nil when envtest's is running, or none.
	arguments []string
	again     *exec.Cmd
}

// Start starts an API server and gives it the CRDs. flags are further ones of the
// API server, as name=value without dashes, in place of those that it has. Stop ends
// it.
func Start(flags ...string) (*Server, error) {
	crds, err := customResources()
	if err != nil {
		return nil, err
	}
	s := &Server{environment: &envtest.Environment{BinaryAssetsDirectory: Binaries(), CRDs: crds,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: patience},
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience}}
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		s.environment.ControlPlane.GetAPIServer().Configure().Set(name, value)
	}
	if s.Config, err = s.environment.Start(); err != nil {
		// What was started before something failed must not stay.
		_ = s.environment.Stop()
		return nil, fmt.Errorf("start an API server (the binaries come from `go run -C tools/cluster . build --only apiserver`): %w", err)
	}
	s.Config.QPS, s.Config.Burst = 1000, 1000
	return s, nil
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
func (s *Server) Stop() error { return errors.Join(s.stopAgain(), s.environment.Stop()) }
