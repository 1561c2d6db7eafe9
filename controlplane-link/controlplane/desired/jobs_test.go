package desired_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/specfile"
)

const (
	aJob = `{"namePrefix":"check","runnerGroup":"tests","script":"#!/bin/sh\necho\n","env":[{"name":"LEVEL","value":"debug"}],"labels":{"team":"a"},"routingContext":{"sandbox":"checkout"},` +
		`"trafficManager":{"injectRoutingKey":"auto"},"uploadArtifact":[{"path":"/data/report.txt","meta":{"format":"text"}}],"retries":2}`
	aGroup = `{"cluster":"east","namespace":"shop","jobTimeout":"10m","reusePods":true,"labels":{"team":"a"},"scaling":{"auto":{"minPods":0,"maxPods":4}},` +
		`"podTemplate":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"other","image":"other:1"},{"name":"main","image":"runner:1"}]}}}`
)

func TestTheObjectsOfJobs(t *testing.T) {
	o, err := desired.Job(model.Job{Org: "acme", Name: "check-abc", Namespace: "shop", Spec: json.RawMessage(aJob), Sequence: 41, Generation: 43, CanceledAt: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "testdata/job.yaml", o)
	g, err := desired.RunnerGroup(model.RunnerGroup{Org: "acme", Name: "tests", Namespace: "shop", Spec: json.RawMessage(aGroup), Generation: 40}, 3)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "testdata/runnergroup.yaml", g)
}

func TestFaultsOfJobsAndGroups(t *testing.T) {
	for text, path := range map[string]string{
		`{"script":"#!/bin/sh","namePrefix":"a b","runnerGroup":"g"}`:                                  "spec.namePrefix",
		`{"script":"echo","runnerGroup":"g"}`:                                                          "spec",
		`{"script":"#!/bin/sh","runnerGroup":"g","trafficManager":{"injectRoutingKey":"Auto"}}`:        "spec.trafficManager.injectRoutingKey",
		`{"script":"#!/bin/sh","runnerGroup":"g","env":[{"name":"SIGNADOT_ROUTING_KEY","value":"x"}]}`: "spec",
		`{"script":"#!/bin/sh","runnerGroup":"g","uploadArtifact":[{"path":"../a"}]}`:                  "spec",
		`{"script":"#!/bin/sh","runnerGroup":"g","routingContext":{"sandbox":"a","routegroup":"b"}}`:   "spec",
		`{"script":"#!/bin/sh","runnerGroup":"g","retries":11}`:                                        "spec",
		`{"script":"#!/bin/sh","command":["a"],"runnerGroup":"g"}`:                                     "spec",
	} {
		_, err := desired.Job(model.Job{Name: "j", Namespace: "shop", Spec: json.RawMessage(text)})
		fault(t, text, path, err)
	}
	for text, path := range map[string]string{
		`{"cluster":"east"}`: "spec.image",
		`{"image":"i"}`:      "spec.cluster",
		`{"cluster":"east","image":"i","jobTimeout":"10"}`:                                   "spec.jobTimeout",
		`{"cluster":"east","image":"i","scaling":{"manual":{"desiredPods":-1}}}`:             "spec.scaling.manual.desiredPods",
		`{"cluster":"east","image":"i","scaling":{"manual":{},"auto":{"maxPods":1}}}`:        "spec.scaling",
		`{"cluster":"east","image":"i","scaling":{"auto":{"minPods":2,"maxPods":1}}}`:        "spec.scaling.auto",
		`{"cluster":"east","image":"i","podTemplate":{"spec":{"containers":[{"nam":"x"}]}}}`: "spec.podTemplate",
	} {
		_, err := desired.RunnerGroup(model.RunnerGroup{Name: "g", Namespace: "shop", Spec: json.RawMessage(text)}, 0)
		fault(t, text, path, err)
	}
	_, err := desired.RunnerGroup(model.RunnerGroup{Name: "A_b", Namespace: "shop", Spec: json.RawMessage(`{"cluster":"east","image":"i"}`)}, 0)
	fault(t, "a name", "name", err)
}

func fault(t *testing.T, text, path string, err error) {
	t.Helper()
	var problems specfile.Problems
	if !errors.As(err, &problems) || len(problems) != 1 || !strings.HasPrefix(problems[0].Path, path) {
		t.Errorf("%s: %v", text, err)
	}
}

func TestReplicas(t *testing.T) {
	for _, c := range []struct {
		min, max        int
		queued, running int
		present         int32
		enough          time.Duration
		want            int32
	}{
		{0, 4, 0, 0, 0, 0, 0}, {1, 4, 0, 0, 0, 0, 1}, {0, 4, 1, 0, 0, 0, 1}, {0, 4, 100, 2, 1, 0, 4}, {0, 4, 1, 2, 2, 0, 3},
		{0, 4, 0, 1, 4, time.Minute, 4}, {0, 4, 0, 1, 4, desired.IdleFor, 1}, {0, 4, 0, 0, 4, desired.IdleFor, 0}, {2, 4, 0, 0, 4, desired.IdleFor, 2},
		{0, 2, 0, 0, 9, 0, 2}, {0, 4, 1 << 40, 0, 0, 0, 4},
	} {
		if got := desired.Replicas(&v2.JobRunnerGroupAutoScaling{MinPods: &c.min, MaxPods: &c.max}, c.queued, c.running, c.present, c.enough); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
