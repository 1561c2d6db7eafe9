package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command/exit"
)

// startsFile makes two sandboxes that make a shell of the workstation run a file: one by the
// ConfigMap of its baseline, the other by the annotation of the sandbox.
func (f *farSide) startsFile(script string) (byConfigMap, byAnnotation string) {
	f.Helper()
	f.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "start"}, Data: map[string]string{"BASH_ENV": "/config/start.sh", "start.sh": script}})
	byConfigMap, byAnnotation = f.namespace+"-c", f.namespace+"-a"
	for name, template := range map[string]string{
		byConfigMap: `envFrom: [{configMapRef: {name: start}}]
        volumeMounts: [{name: config, mountPath: /config}]
      volumes: [{name: config, configMap: {name: start}}]`,
		byAnnotation: `env: [{name: A, value: b}]`,
	} {
		f.Make(&appsv1.Deployment{}, `
metadata: {namespace: `+f.namespace+`, name: `+name+`}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      automountServiceAccountToken: false
      containers:
      - name: main
        image: a
        `+template+`
`)
		o := &crdv1.SignadotSandbox{}
		f.Make(o, strings.NewReplacer("OWNSPACE", f.namespace, "NAME", name).Replace(`
metadata: {name: NAME}
spec:
  id: NAME
  externalWorkloads:
  - name: a
    baseline: {apiVersion: apps/v1, kind: Deployment, namespace: OWNSPACE, name: NAME}
    tunnel: {baselineToLocals: [{baselinePort: 80, localAddress: "localhost:8080"}]}
`))
		if name == byAnnotation {
			o.Annotations = map[string]string{crdv1.AnnotationLocal: `{"a": {
				"containers": [{"name": "main", "env": [{"name": "BASH_ENV", "value": "/config/start.sh"}]}],
				"files": [{"path": "/config/start.sh", "valueFrom": {"configMapKeyRef": {"name": "start", "key": "start.sh"}}}]}}`}
			f.Must(f.Client.Update(f.Context(), o))
		}
	}
	return byConfigMap, byAnnotation
}

// A user that can write a ConfigMap of a baseline, or an annotation of a sandbox, runs no code on the
// workstation of a user of switchyard run.
func TestTheClusterRunsNoCodeOnAWorkstation(t *testing.T) {
	f := newFarSide(t, "local-code")
	f.mayReadIn(f.namespace, true)
	ran := filepath.Join(t.TempDir(), "ran")
	b := f.bench(t)
	byConfigMap, byAnnotation := f.startsFile("echo x >> " + ran + "\n")
	for _, sandbox := range []string{byConfigMap, byAnnotation} {
		for _, flags := range [][]string{nil, {"--clean-env"}, {"--as-is"}, {"--allow-env", "LD_PRELOAD"}} {
			args := append(append([]string{"run", "--sandbox", sandbox, "--no-connect"}, flags...), "--", "bash", "-c", `cat "$SWITCHYARD_ROOT/config/start.sh"`)
			code, out, errs := b.does(t.Context(), args...)
			if code != exit.OK || !strings.HasPrefix(out, "echo x") {
				t.Errorf("%q: exit code %d\n%s%s", args, code, out, errs)
			}
			if strings.Count(errs, "warning: ") != 1 || !strings.Contains(errs, "are left out: BASH_ENV. Give --allow-env NAME") {
				t.Errorf("%q does not name the variable:\n%s", args, errs)
			}
			if text, err := os.ReadFile(ran); err == nil {
				t.Fatalf("%q ran the file of the cluster: %s", args, text)
			}
		}
		code, out, errs := b.does(t.Context(), "sandbox", "get-env", sandbox)
		if code != exit.OK || strings.Contains(out, "BASH_ENV") || !strings.Contains(errs, "are left out: BASH_ENV. Give --allow-env NAME") {
			t.Errorf("get-env %s: exit code %d\n%s%s", sandbox, code, out, errs)
		}
		for _, flag := range []string{"--allow-env=BASH_ENV", "--env=BASH_ENV=/config/start.sh"} {
			_ = os.Remove(ran)
			code, out, errs = b.does(t.Context(), "run", "--sandbox", sandbox, "--no-connect", flag, "--", "bash", "-c", "true")
			if _, err := os.Stat(ran); code != exit.OK || err != nil || strings.Contains(errs, "warning: ") {
				t.Errorf("%s of %s: exit code %d, %v\n%s%s", flag, sandbox, code, err, out, errs)
			}
			if code, out, errs = b.does(t.Context(), "sandbox", "get-env", sandbox, flag); !strings.Contains(out, "BASH_ENV=/config/start.sh\n") {
				t.Errorf("get-env %s with %s: exit code %d\n%s%s", sandbox, flag, code, out, errs)
			}
		}
		_ = os.Remove(ran)
	}
	if code, _, errs := b.does(t.Context(), "sandbox", "get-env", byConfigMap, "--allow-env", "BASH_*"); code != exit.Usage || !strings.Contains(errs, "exact name") {
		t.Errorf("a pattern: exit code %d\n%s", code, errs)
	}
}
