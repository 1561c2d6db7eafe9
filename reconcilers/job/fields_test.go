package job_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
)

// Fields that TestJobsEndAsTheirScriptsDo does not set have their effect in a runner: the script that runs, its
// environment, its time and its requests.
func TestFieldsAreEffectiveInARunner(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	s := newScene(t, "reusePods: true, jobExecutionTimeout: 1s")
	s.gate.reset(0)
	s.manage()
	s.pod("t-1")

	command := s.job("command", "")
	command.Spec.Content = crdv1.JobContent{Command: []string{"/bin/sh", "-c", `echo "$1 $A" >> $LEDGER`, "sh", "argument"}}
	command.Spec.Env = []crdv1.JobEnv{{Name: "A", Value: "value"}}
	s.Create(command)
	if got := s.ended(command); !got.Success {
		t.Errorf("%+v", got)
	}
	if got := strings.Join(s.lines(), " "); got != "argument value" {
		t.Errorf("the command wrote %q", got)
	}

	// The smaller time counts, unless the group permits more.
	const long = "sleep 3"
	if got := s.ended(s.submit("bounded", long, "timeout: 1h")); !got.TimedOut {
		t.Errorf("more time than the group gives: %+v", got)
	}
	world.Edit(s.World, s.group, func(g *crdv1.JobRunnerGroup) { g.Spec.AllowIncreaseJobExecutionTimeout = true })
	if got := s.ended(s.submit("permitted", long, "timeout: 1h")); !got.Success {
		t.Errorf("more time than the group gives, as it permits: %+v", got)
	}
	world.Edit(s.World, s.group, func(g *crdv1.JobRunnerGroup) { g.Spec.JobExecutionTimeout = "" })
	if got := s.ended(s.submit("default", long)); !got.Success {
		t.Errorf("the group sets no time: %+v", got)
	}

	rg := &crdv1.SignadotRouteGroup{}
	s.Make(rg, "metadata: {name: "+s.group.Namespace+"-rg}\nspec: {routingKey: key-rg-"+s.group.Namespace+"}")
	s.Eventually("the status is written", func() error {
		if err := s.Look(rg); err != nil {
			return err
		}
		crdv1.SetCondition(&rg.Status.Conditions, metav1.Condition{
			Type: crdv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", Message: "m", ObservedGeneration: rg.Generation, LastTransitionTime: metav1.Now(),
		})
		return s.Client.Status().Update(s.Context(), rg)
	})
	context := "routingContext: {routegroupName: " + rg.Name + "}"
	for _, one := range []struct {
		name, manager string
		want          *crdv1.JobRequests
		caveat        bool
	}{
		{name: "auto", manager: "{injectRoutingKey: Auto}", want: &crdv1.JobRequests{WithKey: 1}},
		{name: "counted", manager: "{enabled: true}", want: &crdv1.JobRequests{WithoutKey: 1}},
		{name: "neither", manager: "{enabled: false, injectRoutingKey: Disabled}"},
	} {
		j := s.submit(one.name, fmt.Sprintf("curl -sf %s; echo %s-$SIGNADOT_ROUTEGROUP_NAME-$SIGNADOT_ROUTING_KEY >> $LEDGER", app.URL, one.name), context, "trafficManager: "+one.manager)
		if got := s.ended(j); !got.Success {
			t.Errorf("%s: %+v", one.name, got)
		}
		got := j.Status.Execution.Requests
		if got != nil {
			got.Caveat = "" // The environment of this machine decides about it.
		}
		if fmt.Sprint(got) != fmt.Sprint(one.want) {
			t.Errorf("%s: the requests are %+v, not %+v", one.name, got, one.want)
		}
		s.begun(one.name + "-" + rg.Name + "-" + rg.Spec.RoutingKey)
	}

	// The group is that of the Job, by name and namespace.
	other := s.job("other", "true")
	other.Spec.RunnerGroup.Namespace = "default"
	s.Create(other)
	s.waits(other, "RunnerGroupNotFound")
	other = s.job("another", "true")
	other.Spec.RunnerGroup.Name = "others"
	s.Create(other)
	s.waits(other, "RunnerGroupNotFound")
}
