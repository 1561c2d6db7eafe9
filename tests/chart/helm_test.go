package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/tests/apiserver"
)

const (
	chartDir   = "../../charts/operator"
	namespace  = "signadot"
	kubernetes = "1.36.3"
)

// helmPath finds helm: the one tools/cluster builds, or the one on PATH.
func helmPath(t testing.TB) string {
	t.Helper()
	built := filepath.Join(apiserver.Binaries(), "helm")
	if _, err := os.Stat(built); err == nil {
		return built
	}
	path, err := exec.LookPath("helm")
	if err != nil {
		t.Fatalf("no helm at %s and none on PATH; run: go run -C tools/cluster . build", built)
	}
	return path
}

// helm runs helm with a home of its own, so that nothing of the user's is read
// or written; values (YAML text) is what --values=- reads. The error holds what
// helm said.
func helm(t testing.TB, values string, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), helmPath(t), args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	cmd.Stdin = strings.NewReader(values)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s", args[0], err, complaint.String())
	}
	return out.String(), nil
}

// kind returns the objects of one kind.
func (all objects) kind(kind string) objects {
	var out objects
	for _, o := range all {
		if o.GetKind() == kind {
			out = append(out, o)
		}
	}
	return out
}

// find returns one object, or nil.
func (all objects) find(kind, namespace, name string) *unstructured.Unstructured {
	for _, o := range all {
		if o.GetKind() == kind && o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	return nil
}

// title names an object for people.
func title(o *unstructured.Unstructured) string {
	return strings.TrimPrefix(o.GetNamespace()+" ", " ") + o.GetKind() + " " + o.GetName()
}

// as reads an object into a typed one, and refuses fields the type lacks.
func as[T any](t testing.TB, o *unstructured.Unstructured) T {
	t.Helper()
	var typed T
	if o == nil {
		t.Fatalf("no object to read as %T", typed)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
		t.Fatalf("%s: %v", title(o), err)
	}
	return typed
}

// workload is what runs pods.
type workload struct {
	object   *unstructured.Unstructured
	selector map[string]string
	template corev1.PodTemplateSpec
}

// workloads returns everything in the chart that runs pods for good.
func (all objects) workloads(t testing.TB) []workload {
	t.Helper()
	return append(all.run(t, "Deployment"), all.run(t, "StatefulSet")...)
}

// jobs returns everything in the chart that runs pods until they are done.
func (all objects) jobs(t testing.TB) []workload {
	t.Helper()
	return all.run(t, "Job")
}

// run returns what runs pods, of one kind.
func (all objects) run(t testing.TB, kind string) []workload {
	t.Helper()
	var out []workload
	for _, o := range all.kind(kind) {
		spec, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
		selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
		template := as[corev1.PodTemplateSpec](t, &unstructured.Unstructured{Object: spec})
		out = append(out, workload{o, selector, template})
	}
	return out
}
