// Package smarttests decides about executions of Smart Tests. It is pure.
//
//	Group, Job   the runner group of a cluster, and the jobs of an execution   smarttests.go
//	Recording    the captures that are held for an execution                   recordings.go
//	Accept       the problems of tests and executions                          accept.go
//	Triggered    the executions that a revision of a sandbox triggers          accept.go
//	Filter       the executions that a query is for                            filter.go
//	Read         the results that a job has printed                            outcome.go
//	Conclude     the end of an execution                                       outcome.go
//	Compare      the captured calls of both sides                              compare.go
package smarttests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/smarttest"
)

const (
	// MostAtOnce is how many executions of a cluster are in progress at once; each has two jobs.
	MostAtOnce = 10
	// runs is how often each side runs a test with captures: the runs of a side show noise.
	runs = 3
	// longest is the longest timeout of a run.
	longest = time.Hour
)

// Program is the interpreter in its image.
const Program = "/smart-test"

// Side is one side of an execution.
type Side string

// Sides. An execution without a sandbox or route group has the baseline alone.
const (
	Target   Side = "sandbox"
	Baseline Side = "baseline"
)

// Sides returns those of an execution.
func Sides(x model.TestExecution) []Side {
	if x.RoutingKey == "" {
		return []Side{Baseline}
	}
	return []Side{Target, Baseline}
}

const prefix = "smart-test-"

// JobName returns the name of the job of a side.
func JobName(id string, side Side) string { return prefix + id + "-" + string(side) }

// IDOf returns the execution of a job by the job's name.
func IDOf(job string) (id string, is bool) {
	rest, is := strings.CutPrefix(job, prefix)
	id, side, two := strings.Cut(rest, "-")
	return id, is && two && (side == string(Target) || side == string(Baseline))
}

// GroupPrefix begins the names of the runner groups of Smart Tests.
const GroupPrefix = "smart-tests-"

// groupName returns the name of the runner group of a cluster. The name of a cluster can have letters that those of objects cannot.
func groupName(cluster string) string {
	if name := GroupPrefix + cluster; len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(cluster))
	return GroupPrefix + hex.EncodeToString(sum[:8])
}

// Group returns the runner group of a cluster. The control plane itself is its author.
func Group(org, cluster string, at time.Time) model.RunnerGroup {
	spec, _ := json.Marshal(map[string]any{ // it has texts and numbers
		"cluster": cluster, "namespace": crdv1.SmartTestsNamespace, "image": crdv1.SmartTestsImage, "reusePods": true,
		"jobTimeout": ((longest + time.Minute) * runs).String(),
		"scaling":    map[string]any{"auto": map[string]any{"minPods": 0, "maxPods": 2 * MostAtOnce}},
	})
	return model.RunnerGroup{Org: org, Name: groupName(cluster), Cluster: cluster, Namespace: crdv1.SmartTestsNamespace, Spec: spec, CreatedAt: at, UpdatedAt: at}
}

// Job returns the job of a side, with the interpreter at a path in its image. The control plane itself is its author.
func Job(x model.TestExecution, side Side, program, group string, at time.Time) (model.Job, error) {
	env := map[string]string{smarttest.EnvName: x.Test, smarttest.EnvTimeout: x.Timeout.String()}
	if len(Sides(x)) > 1 {
		env[smarttest.EnvRuns] = strconv.Itoa(runs)
	}
	if side == Target {
		env[smarttest.EnvTraces] = Traces(x.ID)
	}
	of := v2.JobSpec{RunnerGroup: &group, Script: new("#!" + program + " run\n" + x.Script)}
	for _, name := range []string{smarttest.EnvName, smarttest.EnvTimeout, smarttest.EnvRuns, smarttest.EnvTraces} {
		if value := env[name]; value != "" {
			of.Env = append(of.Env, v2.JobEnvItem{Name: &name, Value: &value})
		}
	}
	j := model.Job{Org: x.Org, Name: JobName(x.ID, side), Group: group, CreatedAt: at}
	if side == Target {
		of.RoutingContext = x.Spec.ExecutionContext.Routing
		of.TrafficManager = &v2.JobTrafficManager{Enabled: new(true), InjectRoutingKey: new("auto")}
		j.Sandbox, j.RoutingKey = x.Sandbox, x.RoutingKey
	}
	var err error
	j.Spec, err = json.Marshal(of)
	return j, err
}
