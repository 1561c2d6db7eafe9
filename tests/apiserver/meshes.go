package apiserver

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// DefineIstio makes it serve the kinds of Istio, VirtualServices among them.
func (s *Server) DefineIstio(ctx context.Context) error {
	return s.define(ctx, "istio.io/api", "kubernetes/customresourcedefinitions.gen.yaml")
}

// DefineGatewayAPI installs the definitions of the Gateway API's routes and their dependencies.
func (s *Server) DefineGatewayAPI(ctx context.Context) error {
	const folder = "config/crd/standard/gateway.networking.k8s.io_"
	return s.define(ctx, "sigs.k8s.io/gateway-api", folder+"httproutes.yaml", folder+"grpcroutes.yaml", folder+"referencegrants.yaml", folder+"backendtlspolicies.yaml")
}

// define installs the definitions that are in files of a module.
func (s *Server) define(ctx context.Context, module string, files ...string) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("find module %s: %w", module, err)
	}
	for i, file := range files {
		files[i] = filepath.Join(strings.TrimSpace(string(dir)), file)
	}
	_, err = envtest.InstallCRDs(s.Config, envtest.CRDInstallOptions{Paths: files, MaxTime: time.Minute})
	return err
}
