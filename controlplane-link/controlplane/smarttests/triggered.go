package smarttests

import (
	"encoding/json"
	"strings"

	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// TriggerID returns the identifier of a trigger that has none: it stays when the test is written again.
func TriggerID(w v2.WorkloadWorkload) string {
	return strings.ToLower(w.Kind) + "." + w.Namespace + "." + w.Name
}

// Triggered returns the executions that the present revision of a sandbox triggers: of tests that are older than it, with a trigger
// for a workload that it replaces. Its author is that of the executions. An execution has no ID.
func Triggered(tests []model.Test, s model.Sandbox) (out []model.TestExecution) {
	var of v2.SandboxSpec
	if json.Unmarshal(s.Spec, &of) != nil {
		return nil
	}
	has := map[string]bool{}
	for _, f := range of.Forks {
		has[TriggerID(v2.WorkloadWorkload(f.ForkOf))] = true
	}
	for _, l := range of.Local {
		has[TriggerID(v2.WorkloadWorkload(l.From))] = true
	}
	for _, v := range of.Virtual {
		has[TriggerID(v2.WorkloadWorkload(v.Workload))] = true
	}
	for _, test := range tests {
		for _, one := range test.Spec.Triggers {
			t := ptr.Deref(one.ExecutionTemplate, v2.TestExecutionTemplate{})
			cluster := ptr.Deref(t.Cluster, "")
			if one.SandboxOf == nil || !has[TriggerID(*one.SandboxOf)] || test.Generation >= s.Generation || cluster != "" && cluster != s.Cluster {
				continue
			}
			x, err := Execution(v2.TestExecutionSpec{Hosted: &v2.HostedSpec{TestName: &test.Name}, ExecutionContext: &v2.TestExecutionContext{
				AutoDiff: t.AutoDiff, Cluster: &s.Cluster, Publish: t.Publish, Routing: &v2.JobRoutingContext{Sandbox: &s.Name}, Timeout: t.Timeout,
			}}, ptr.Deref(test.Spec.Script, ""), ptr.Deref(test.Spec.DefaultTimeout, ""))
			if err != nil {
				continue // it was accepted
			}
			x.Org, x.Sandbox, x.RoutingKey, x.Revision, x.Author = s.Org, s.Name, s.RoutingKey, s.Generation, s.Author
			x.Trigger = test.Name + "/" + ptr.Deref(one.ID, "")
			x.Status.TriggeredBy = &v2.TestExecutionTriggeredBy{Sandbox: &s.Name, Trigger: &one}
			out = append(out, x)
		}
	}
	return out
}
