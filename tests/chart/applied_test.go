package chart

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/apiserver"
)

// appliers are programs that apply the output of helm template, and what distinguishes the objects
// that they create. Argo CD and Flux run no part of themselves here: their field managers and marks are
// those of their documentation.
var appliers = map[string]struct {
	kubectl     []string
	annotations map[string]string
	labels      map[string]string
	why         string
}{
	"kubectl apply":               {kubectl: []string{"apply"}, why: "kubectl apply applied it"},
	"kubectl create":              {kubectl: []string{"create"}, why: "field manager kubectl-create"},
	"kubectl apply --server-side": {kubectl: []string{"apply", "--server-side"}, why: "field manager kubectl set"},
	"Argo CD, by label":           {kubectl: []string{"apply", "--server-side", "--field-manager=argocd-controller"}, labels: map[string]string{"app.kubernetes.io/instance": "switchyard"}, why: "field manager argocd-controller"},
	"Argo CD, by annotation": {kubectl: []string{"create", "--field-manager=argocd-controller"}, annotations: map[string]string{
		"argocd.argoproj.io/tracking-id": "switchyard:batch/Job:signadot/signadot-drain"}, why: "Argo CD applied it"},
	"Flux Kustomization": {kubectl: []string{"apply", "--server-side", "--field-manager=kustomize-controller"},
		labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "switchyard", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, why: "kustomize-controller"},
	takenOver: {kubectl: []string{"apply", "--server-side", "--force-conflicts"}, why: "field manager kubectl set"},
	// Programs that have Helm built in.
	"helm, server side":             {kubectl: []string{"apply", "--server-side", "--field-manager=helm"}},
	"Flux HelmRelease":              {kubectl: []string{"create", "--field-manager=helm-controller"}, labels: map[string]string{"helm.toolkit.fluxcd.io/name": "switchyard"}},
	"the Helm provider of OpenTofu": {kubectl: []string{"create", "--field-manager=terraform-provider-helm_v3.1.1"}},
}

const takenOver = "a Job of helm, taken over"

func TestTheDrainingJobActsForHelmClientsAlone(t *testing.T) {
	s := startAPIServer(t)
	s.installWithHooks(t, "{uninstall: {waitSeconds: 0}, sandboxes: {authors: {ask: false}}}") // No manager answers webhooks here.
	for name, by := range appliers {
		t.Run(name, func(t *testing.T) {
			s.hold(t)
			job := mustRender(t, "uninstall: {waitSeconds: 0}").find("Job", namespace, drainJob)
			if name == takenOver {
				s.kubectl(t, job, "create", "--field-manager=helm")
			}
			job = job.DeepCopy()
			job.SetAnnotations(with(job.GetAnnotations(), by.annotations))
			job.SetLabels(with(job.GetLabels(), by.labels))
			s.kubectl(t, job, by.kubectl...)
			said, drained := s.drains(t)
			if drained != (by.why == "") || !strings.Contains(said, by.why) || by.why != "" && !strings.Contains(said, "helm template --no-hooks") {
				t.Errorf("drained: %v; the Job logs\n%s", drained, said)
			}
		})
	}
	t.Run("any program, with uninstall.now", func(t *testing.T) {
		s.hold(t)
		s.kubectl(t, mustRender(t, "uninstall: {waitSeconds: 0, now: true}").find("Job", namespace, drainJob), "apply")
		if said, drained := s.drains(t); !drained {
			t.Errorf("the Job drains nothing:\n%s", said)
		}
	})
}

// held returns a RoutingConfig that has the operator's finalizer.
func held() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("signadot.com/v1")
	o.SetKind("RoutingConfig")
	o.SetName("held")
	o.SetFinalizers([]string{"signadot.com/switchyard"})
	o.Object["spec"] = map[string]any{"sandboxedWorkloads": []any{}}
	return o
}

// hold writes the finalizer of that RoutingConfig, as the manager does.
func (s apiServer) hold(t *testing.T) {
	t.Helper()
	if err := s.apply(t.Context(), held()); err != nil {
		t.Fatal(err)
	}
}

// kubectl gives an object to kubectl.
func (s apiServer) kubectl(t *testing.T, o *unstructured.Unstructured, args ...string) {
	t.Helper()
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(apiserver.Binaries(), "kubectl"), append(args, "--kubeconfig="+s.kubeconfig, "--filename=-")...)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

// drains runs the Job once and deletes it. It returns what the Job logs, and whether the finalizer of
// the RoutingConfig was removed.
func (s apiServer) drains(t *testing.T) (said string, drained bool) {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: drainJob}}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := s.runJob(t, job, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Errorf("the Job fails: %v", err)
	}
	if err := s.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the Job is deleted", func() error {
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(job), job); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("it exists: %v", err)
		}
		return nil
	})
	kept := held()
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(kept), kept); err != nil {
		t.Fatal(err)
	}
	return log.String(), len(kept.GetFinalizers()) == 0
}

// with returns both maps as one.
func with(all, more map[string]string) map[string]string {
	out := maps.Clone(all)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}
