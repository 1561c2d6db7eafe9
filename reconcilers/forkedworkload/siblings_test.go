package forkedworkload_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/forkedworkload"
)

// forkOf returns a fork of the sandbox, with these Services.
func forkOf(workload string, services ...crdv1.ServiceMapping) crdv1.ForkedWorkload {
	return crdv1.ForkedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sb-" + workload},
		Spec:       crdv1.ForkedWorkloadSpec{Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: workload}},
		Status:     crdv1.ForkedWorkloadStatus{RoutingConfig: &crdv1.WorkloadRoutingInfo{Services: services}},
	}
}

func to(from, service string, ports ...int32) crdv1.ServiceMapping {
	m := crdv1.ServiceMapping{From: from, To: service}
	for _, p := range ports {
		m.Ports = append(m.Ports, crdv1.MappedPort{Port: p, TargetPort: 1})
	}
	return m
}

func TestAPatchNamesTheServiceOfAnotherFork(t *testing.T) {
	unready := forkOf("b")
	unready.Status.RoutingConfig = nil
	leaving := forkOf("b", to("b", "sb-b", 80))
	leaving.DeletionTimestamp = &metav1.Time{}
	for name, tt := range map[string]struct {
		siblings             []crdv1.ForkedWorkload
		gives, reason, notes string
		status               metav1.ConditionStatus
	}{
		"it has a Service": {siblings: []crdv1.ForkedWorkload{forkOf("c", to("c", "sb-c", 1)), forkOf("b", to("b", "sb-b", 8080, 9090))},
			gives: "sb-b.shop.svc:8080", status: "True", reason: "Accepted", notes: "The spec is valid and its patches apply."},
		"the first of several": {siblings: []crdv1.ForkedWorkload{forkOf("b", to("web", "sb-web", 80), to("admin", "", 1), to("api", "sb-api", 81))},
			gives: "sb-api.shop.svc:81", status: "True", reason: "SiblingServiceChosen",
			notes: "Of the Services of the fork of Deployment/shop/b (api, web) the patches name that of api."},
		"it has none": {siblings: []crdv1.ForkedWorkload{forkOf("b", to("b", "", 80))}, status: "Unknown", reason: "SiblingWithoutService",
			notes: "patch 1 of 1 for Deployment ns/a (strategic) names the Service of the fork of Deployment/shop/b, which has none: give that workload a Service"},
		"it has none yet": {siblings: []crdv1.ForkedWorkload{unready}, status: "Unknown", reason: "SiblingWithoutService",
			notes: "patch 1 of 1 for Deployment ns/a (strategic) names the Service of the fork of Deployment/shop/b, which has none: give that workload a Service"},
		"it goes": {siblings: []crdv1.ForkedWorkload{leaving}, status: "False", reason: "InvalidTemplate",
			notes: "patch 1 of 1 for Deployment ns/a (strategic) is a template, and spec.template.spec.containers[0].env[0].value is wrong: " +
				"the variable \".forks.Deployment/shop/b.service.host\" is not known; known are: .baseline.container, .sandbox.name, .sandbox.routingKey"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			patch := patchOf("strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"B",
				"value":"{{ .forks.Deployment/shop/b.service.host }}:{{ .forks.Deployment/shop/b.service.port }}"}]}]}}}}`)
			patch.Template = true
			w.in.Workload.Spec.Patches, w.in.Siblings = []crdv1.Patch{patch}, tt.siblings
			d := forkedworkload.Decide(w.in)
			if c := d.Conditions[crdv1.ConditionAccepted]; c.Status != tt.status || c.Reason != tt.reason || c.Message != tt.notes {
				t.Errorf("accepted: %s %s\n%s\nwant %s %s\n%s", c.Status, c.Reason, c.Message, tt.status, tt.reason, tt.notes)
			}
			if len(d.Services) != 1 {
				t.Errorf("its own Services are %v: the other fork may wait for them", d.Services)
			}
			if tt.gives == "" {
				if d.Fork != nil {
					t.Error("a fork is made")
				}
				return
			}
			env := deployed(t, []any{d}).Spec.Template.Spec.Containers[0].Env
			if !slices.Contains(env, corev1.EnvVar{Name: "B", Value: tt.gives}) {
				t.Errorf("it is told %v, want %q", env, tt.gives)
			}
		})
	}
}
