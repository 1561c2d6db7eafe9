package chart

import (
	"net"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/routeserver/server"
)

// pod of a workload, by its name.
func (all objects) podOf(t *testing.T, name string) corev1.PodSpec {
	t.Helper()
	for _, w := range all.workloads(t) {
		if w.object.GetName() == name {
			return w.template.Spec
		}
	}
	t.Fatalf("no workload %s", name)
	return corev1.PodSpec{}
}

// getenv is the environment of a pod's container, as its program sees it.
func getenv(spec corev1.PodSpec) func(string) string {
	return func(name string) string { return env(spec, name) }
}

// listensOn checks that a program's addresses are ports its container declares.
func listensOn(t *testing.T, spec corev1.PodSpec, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		_, text, err := net.SplitHostPort(address)
		if err != nil {
			t.Errorf("address %q: %v", address, err)
			continue
		}
		port, err := strconv.ParseInt(text, 10, 32)
		if err != nil || !listens(spec, intstr.FromInt32(int32(port))) {
			t.Errorf("the program listens on %s, which its container does not declare", address)
		}
	}
}

// mounted checks that a file the program reads is in a volume of its pod.
func mounted(t *testing.T, spec corev1.PodSpec, file string) {
	t.Helper()
	for _, mount := range spec.Containers[0].VolumeMounts {
		rest, below := strings.CutPrefix(file, strings.TrimSuffix(mount.MountPath, "/")+"/")
		if below && volumeHas(spec, mount.Name, rest) {
			return
		}
	}
	t.Errorf("the program reads %s, which no volume holds", file)
}

// volumeHas says whether a projected volume has a file.
func volumeHas(spec corev1.PodSpec, volume, file string) bool {
	for _, v := range spec.Volumes {
		if v.Name != volume || v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil && source.ServiceAccountToken.Path == file {
				return true
			}
			var items []corev1.KeyToPath
			if source.Secret != nil {
				items = source.Secret.Items
			}
			if source.ConfigMap != nil {
				items = source.ConfigMap.Items
			}
			for _, item := range items {
				if item.Path == file {
					return true
				}
			}
		}
	}
	return false
}

func TestTheRouteServerTakesItsArguments(t *testing.T) {
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := mustRender(t, values).podOf(t, "routeserver")
			settings, err := server.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			listensOn(t, spec, settings.GRPCAddress, settings.RESTAddress, settings.XDSAddress, settings.MetricsAddress)
			for _, file := range []string{settings.Bus.TokenFile, settings.Bus.CredentialsFile, settings.Bus.CAFile} {
				if file != "" {
					mounted(t, spec, file)
				}
			}
		})
	}
}
