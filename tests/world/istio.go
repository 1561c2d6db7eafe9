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
	dir, err := exec.CommandContext(w.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	w.Must(err)
	_, err = envtest.InstallCRDs(w.Config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(strings.TrimSpace(string(dir)), "kubernetes", "customresourcedefinitions.gen.yaml")}, MaxTime: Patience,
	})
	w.Must(err)
}
