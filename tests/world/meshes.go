package world

import (
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// DefineIstio makes the API server serve the kinds of Istio, VirtualServices among them.
func (w *World) DefineIstio() {
	w.Helper()
	w.define("istio.io/api", "kubernetes/customresourcedefinitions.gen.yaml")
}

// DefineGatewayAPI makes the API server serve the routes of the Gateway API, and what they need.
func (w *World) DefineGatewayAPI() {
	w.Helper()
	const folder = "config/crd/standard/gateway.networking.k8s.io_"
	w.define("sigs.k8s.io/gateway-api", folder+"httproutes.yaml", folder+"grpcroutes.yaml", folder+"referencegrants.yaml")
}

// define installs the definitions that are in files of a module.
func (w *World) define(module string, files ...string) {
	w.Helper()
	dir, err := exec.CommandContext(w.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	w.Must(err)
	for i, file := range files {
		files[i] = filepath.Join(strings.TrimSpace(string(dir)), file)
	}
	_, err = envtest.InstallCRDs(w.Config, envtest.CRDInstallOptions{Paths: files, MaxTime: Patience})
	w.Must(err)
}
