package jobs_test

import (
	"slices"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
)

// A request to inject the key has the custom headers of the cluster.
func TestARequestHasTheCustomHeaders(t *testing.T) {
	headers := []string{"x-team-key"}
	for name, tt := range map[string]struct {
		inject, key string
		want        []string
	}{
		"auto": {"Auto", "k", headers}, "without injection": {"Disabled", "k", nil}, "the baseline": {"Auto", "", nil},
	} {
		j := &crdv1.Job{Spec: crdv1.JobSpec{TrafficManager: &crdv1.JobTrafficManager{Enabled: true, InjectRoutingKey: tt.inject}}}
		j.Status.Execution = &crdv1.JobExecution{Count: 1}
		r := jobs.Request(j, &crdv1.JobRunnerGroup{}, jobs.Context{RoutingKey: tt.key, Headers: headers}).GetRouting()
		if !slices.Equal(r.GetCustomHeaders(), tt.want) || r.GetInject() != (tt.want != nil) {
			t.Errorf("%s: %v", name, r)
		}
	}
}
