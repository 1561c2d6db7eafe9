package jobs_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
)

// A runner gets the timeout that was recorded when the job got its pod, whatever the group states since.
func TestARequestHasTheRecordedTimeout(t *testing.T) {
	g := &crdv1.JobRunnerGroup{Spec: crdv1.JobRunnerGroupSpec{JobExecutionTimeout: "2h"}}
	j := &crdv1.Job{}
	j.Status = jobs.Assigned(j, g, &corev1.Pod{}, "c")
	for timeout, g := range map[string]*crdv1.JobRunnerGroup{"its group": g, "another one": {Spec: crdv1.JobRunnerGroupSpec{JobExecutionTimeout: "1m"}}, "none": {}} {
		if got := jobs.Request(j, g, jobs.Context{}).GetTimeout().AsDuration(); got != 2*time.Hour {
			t.Errorf("%s: %s", timeout, got)
		}
	}
}

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
