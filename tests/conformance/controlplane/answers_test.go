package controlplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/golden"
)

// random are the parts of answers that no two have in common.
var random = regexp.MustCompile(`("requestId":"req-|"cursor":"first\.|"name":"(?:my-job|job)-)[^"]*"`)

// TestAnswersOfJobs compares whole answers of the operations of jobs and runner groups: status, type and body, among
// them those of bad input. The published texts are those of the recorded sessions.
func TestAnswersOfJobs(t *testing.T) {
	w := newWorld(t)
	in := jobstore.Store{Store: w.store}
	end := func(name string, a model.Attempt) {
		j, err := in.Submit(w.ctx(), model.Job{Org: org, Name: name, Group: "demo-jrg", Spec: json.RawMessage(`{"runnerGroup":"demo-jrg","command":["true"]}`), CreatedAt: w.now}, w.event())
		w.must(err)
		_, err = in.Attempt(w.ctx(), j, w.now)
		w.must(err)
		a.Executions, a.StartedAt, a.FinishedAt = 2, w.now, w.now
		_, err = in.Observe(w.ctx(), j, a)
		w.must(err)
	}
	end("failed-job", model.Attempt{Phase: model.PhaseFailed, ExitCode: new(int32(3)), Message: "The script has failed."})
	end("lost-job", model.Attempt{Phase: model.PhaseFailed, Message: "Its pod was lost."})
	end("uncollected-job", model.Attempt{Phase: model.PhaseSucceeded, Output: crdv1.OutputKept})
	end("unread-job", model.Attempt{Phase: model.PhaseSucceeded, Output: crdv1.OutputLost})
	end("late-job", model.Attempt{Phase: model.PhaseCanceled, CanceledBy: "timeout", InCluster: true, Message: "It has run for 30m."})
	const (
		group  = `{"cluster":"demo","namespace":"tests","image":"example.org/runner:1","jobTimeout":"5m","reusePods":true,"labels":{"team":"demo"},"podTemplate":{"spec":{"containers":[{"name":"main"}]}},"scaling":{"auto":{"minPods":0,"maxPods":3}}}`
		script = `"runnerGroup":"demo-jrg","script":"#!/bin/sh\n"`
		files  = "/artifacts/jobs/demo-job-1/attempts/0"
		logs   = "/jobs/demo-job-1/attempts/0/logs/stream"
	)
	var out strings.Builder
	for _, tt := range []struct{ request, body string }{
		{"GET /runnergroups", ``},
		{"GET /runnergroups/demo-jrg", ``},
		{"GET /runnergroups/no-such", ``},
		{"PUT /runnergroups/third-jrg", `{"name":"another","status":null,"spec":` + group + `}`},
		{"PUT /runnergroups/fourth-jrg", `{"spec":{"cluster":"demo","image":"i","namespace":null,"jobTimeout":null,"labels":null,"podTemplate":null,"reusePods":null,"scaling":null}}`},
		{"PUT /runnergroups/demo-jrg", `{"spec":{"cluster":"demo","image":"i","namespace":"other"}}`},
		{"PUT /runnergroups/new", `{"spec":{"cluster":"no-such","image":"i"}}`},
		{"PUT /runnergroups/new", `{"spec":{"image":"i"}}`},
		{"PUT /runnergroups/new", `{"spec":{"cluster":"demo"}}`},
		{"PUT /runnergroups/New_JRG", `{"spec":{"cluster":"demo","image":"i"}}`},
		{"PUT /runnergroups/new", `{"spec":{"cluster":"demo","image":"i","jobTimeout":"soon"}}`},
		{"PUT /runnergroups/new", `{"spec":{"cluster":"demo","image":"i","scaling":{"manual":{"desiredPods":1},"auto":{"maxPods":1}}}}`},
		{"PUT /runnergroups/new", `{"spec":{"cluster":"demo","image":"i","scaling":{"auto":{"minPods":2,"maxPods":1}}}}`},
		{"PUT /runnergroups/new", `{"spec":{"cluster":"demo","image":"i","podTemplate":{"spec":{"container":[]}}}}`},
		{"PUT /runnergroups/new", `{"spec":{"cluster":"demo","image":"i","reusepods":true}}`},
		{"DELETE /runnergroups/no-such", ``},
		{"DELETE /runnergroups/new-jrg", ``},
		{"GET /runnergroups/new-jrg", ``},
		{"PUT /runnergroups/new-jrg", `{"spec":{"cluster":"demo","image":"i"}}`},
		{"POST /jobs", `{"spec":{"runnerGroup":"new-jrg","script":"#!/bin/sh\n"}}`},

		{"POST /jobs", `{"spec":{"namePrefix":"My_Job","env":null,"labels":null,"routingContext":null,"trafficManager":null,"uploadArtifact":null,"command":null,` + script + `}}`},
		{"POST /jobs", `{"spec":{"runnerGroup":"demo-jrg","command":["true"],"script":null,"retries":2,"env":[{"name":"LEVEL","value":"debug"}],"labels":{"team":"demo"},"routingContext":{"routegroup":"demo-rg"},"trafficManager":{"injectRoutingKey":"auto"},"uploadArtifact":[{"path":"/data/a","meta":{"of":"a"}},{"path":"/data/b","meta":null}]}}`},
		{"POST /jobs", `{"spec":{}}`},
		{"POST /jobs", `{"spec":{"runnerGroup":"no-such","script":"#!/bin/sh\n"}}`},
		{"POST /jobs", `{"spec":{"runnerGroup":"demo-jrg"}}`},
		{"POST /jobs", `{"spec":{"runnerGroup":"demo-jrg","script":"echo"}}`},
		{"POST /jobs", `{"spec":{"command":["true"],` + script + `}}`},
		{"POST /jobs", `{"spec":{"command":[null],` + script + `}}`},
		{"POST /jobs", `{"spec":{"namePrefix":"a b",` + script + `}}`},
		{"POST /jobs", `{"spec":{"env":[{"name":"SIGNADOT_X","value":"y"}],` + script + `}}`},
		{"POST /jobs", `{"spec":{"trafficManager":{"injectRoutingKey":"Auto"},` + script + `}}`},
		{"POST /jobs", `{"spec":{"routingContext":{"sandbox":"no-such"},` + script + `}}`},
		{"POST /jobs", `{"spec":{"routingContext":{"sandbox":"demo-sb","routegroup":"demo-rg"},` + script + `}}`},
		{"POST /jobs", `{"spec":{"uploadArtifact":[{"path":"a/../../b"}],` + script + `}}`},
		{"POST /jobs", `{"spec":{"retries":-1,` + script + `}}`},
		{"GET /jobs?targetSandbox=demo-sb", ``},
		{"GET /jobs?targetSandbox=no-such", ``},
		{"GET /jobs/demo-job-1", ``},
		{"GET /jobs/demo-job-2", ``},
		{"GET /jobs/demo-job-x7f2q", ``},
		{"GET /jobs/failed-job", ``},
		{"GET /jobs/lost-job", ``},
		{"GET /jobs/late-job", ``},
		{"GET /jobs/no-such", ``},
		{"GET /jobs/", ``},
		{"PATCH /jobs/demo-job-1", ``},
		{"PUT /jobs/demo-job-x7f2q/cancel", ``},
		{"PUT /jobs/demo-job-2/cancel", ``},
		{"PUT /jobs/demo-job-1/cancel", ``},
		{"PUT /jobs/no-such/cancel", ``},
		{"DELETE /jobs/late-job", ``},
		{"GET /jobs/late-job", ``},
		{"PUT /jobs/late-job/cancel", ``},
		{"DELETE /jobs/no-such", ``},

		{"GET " + logs + "?type=stdout", ``},
		{"GET " + logs + "?type=stderr&tailLines=1", ``},
		{"GET " + logs + "?tailLines=-1", ``},
		{"GET " + logs + "?cursor=first.AAAA", ``},
		{"GET /jobs/demo-job-1/attempts/1/logs/stream", ``},
		{"GET /jobs/no-such/attempts/0/logs/stream", ``},
		{"GET " + files, ``},
		{"GET " + files + "?space=user", ``},
		{"GET " + files + "?space=all", ``},
		{"GET /artifacts/jobs/demo-job-2/attempts/0", ``},
		{"GET " + files + "/objects/?path=/data/report.txt&space=user", ``},
		{"GET " + files + "/objects/?path=@stdout", ``},
		{"GET " + files + "/objects?path=@stdout", ``},
		{"GET " + files + "/objects/?path=/data/none.txt", ``},
		{"GET " + files + "/objects/download?path=/data/report.txt&space=user", ``},
		{"GET " + files + "/objects/download", ``},
		{"GET " + files + "/objects/download?path=/data/none.txt&space=user", ``},
		{"GET /artifacts/jobs/demo-job-2/attempts/0/objects/download?path=@stdout", ``},
		{"GET /artifacts/jobs/uncollected-job/attempts/0/objects/?path=@stdout", ``},
		{"GET /artifacts/jobs/unread-job/attempts/0/objects/download?path=@stdout", ``},
		{"GET /jobs/unread-job/attempts/0/logs/stream", ``},
		{"GET /artifacts/jobs/lost-job/attempts/0/objects/download?path=@stdout", ``},
		{"GET /artifacts/jobs/demo-job-1/attempts/4", ``},
		{"POST " + files + "/objects/upload?path=/x", ``},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		got := w.send(method, orgPath+path, tt.body)
		if got.status >= http.StatusBadRequest {
			got.errorText(t)
		}
		fmt.Fprintf(&out, "%s %s\n%d %s\n%s\n\n", tt.request, tt.body, got.status, got.kind, random.ReplaceAll(got.body, []byte(`${1}…"`)))
	}
	golden.Compare(t, "testdata/jobs.txt", out.String())
}

// TestAnswersAboutGroupsAreValidRequests: a client sends back a runner group that it got.
func TestAnswersAboutGroupsAreValidRequests(t *testing.T) {
	w := newWorld(t)
	const path = orgPath + "/runnergroups/new-jrg"
	body := `{"spec":{"cluster":"demo","namespace":"signadot","image":"i","jobTimeout":"5m","labels":{"a":"b","old":null},"podTemplate":{"metadata":{"labels":null},"spec":{"containers":[]}},"scaling":{"manual":{"desiredPods":0}}}}`
	first := w.send("PUT", path, body)
	second := w.send("PUT", path, string(first.body))
	var one, two v2.JobRunnerGroup
	w.must(json.Unmarshal(first.body, &one))
	w.must(json.Unmarshal(second.body, &two))
	if first.status != http.StatusOK || second.status != http.StatusOK || !bytes.Equal(jsonOf(t, one.Spec), jsonOf(t, two.Spec)) || one.Spec.Scaling.Manual == nil {
		t.Errorf("%s\n%s", first.body, second.body)
	}
}
