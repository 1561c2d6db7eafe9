package fork_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
)

// baselineYAML is a Deployment as the API server gives it.
const baselineYAML = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: customer
  namespace: hotrod
  uid: 11111111-1111-1111-1111-111111111111
  resourceVersion: "42"
  generation: 7
  labels: {app: customer, team: blue}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"huge": true}'
    deployment.kubernetes.io/revision: "7"
    kubernetes.io/change-cause: kubectl set image deployment/customer main=customer:1
    argocd.argoproj.io/tracking-id: shop:apps/Deployment:hotrod/customer
    note: kept
spec:
  replicas: 3
  selector: {matchLabels: {app: customer}}
  template:
    metadata:
      labels: {app: customer, version: v1}
      annotations: {sidecar.signadot.com/inject: "true", prometheus.io/scrape: "true"}
    spec:
      serviceAccountName: customer
      terminationGracePeriodSeconds: 5
      containers:
      - name: main
        image: customer:1
        ports: [{name: http, containerPort: 8081}, {containerPort: 9090}]
        env: [{name: COLOR, value: blue}]
      - name: cache
        image: cache:1
status:
  replicas: 3
`

// baseline returns a fresh copy of the baseline.
func baseline(t testing.TB) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	read(t, baselineYAML, d)
	return d
}

// read reads YAML into a value.
func read(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("read %T: %v\n%s", into, err, text)
	}
}

// patches reads the patches of a ForkedWorkload.
func patches(t testing.TB, text string) []crdv1.Patch {
	t.Helper()
	var out []crdv1.Patch
	read(t, text, &out)
	return out
}

func identity() fork.Identity {
	return fork.Identity{
		ForkedWorkload: "sb1-customer-0000aaaa",
		Namespace:      "hotrod",
		Owner:          metav1.OwnerReference{APIVersion: "signadot.com/v1", Kind: "ForkedWorkload", Name: "sb1-customer-0000aaaa", UID: "fw-uid"},
		Baseline:       crdv1.ObjectRef{Kind: "Deployment", Namespace: "hotrod", Name: "customer"},
		SandboxName:    "sb1",
		SandboxLabel:   "sb1",
		RoutingKey:     "key1",
	}
}

// clone makes the fork with patches and fails the test on a problem.
func clone(t testing.TB, plan fork.Plan) *appsv1.Deployment {
	t.Helper()
	plan.Identity = identity()
	got, problem := cloneOf(baseline(t), plan)
	if problem != nil {
		t.Fatalf("unexpected problem %s: %s", problem.Reason, problem.Message)
	}
	return got
}

// refusal makes the fork and returns the problem; it fails the test when there is
// none.
func refusal(t testing.TB, plan fork.Plan) *fork.Problem {
	t.Helper()
	plan.Identity = identity()
	got, problem := cloneOf(baseline(t), plan)
	if problem == nil {
		t.Fatalf("there should be a problem; got %+v", got)
	}
	return problem
}

// cloneOf makes the fork of a Deployment.
func cloneOf(d *appsv1.Deployment, plan fork.Plan) (*appsv1.Deployment, *fork.Problem) {
	got, problem := fork.Clone(livebaseline.OfDeployment(d), plan)
	if problem != nil {
		return nil, problem
	}
	made, _ := got.Object.(*appsv1.Deployment)
	return made, nil
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func service(t testing.TB, text string) corev1.Service {
	t.Helper()
	var s corev1.Service
	read(t, text, &s)
	return s
}

func mustContain(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q does not say %q", text, p)
		}
	}
}
