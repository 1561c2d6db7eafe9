package manager_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/iocontext"
)

// canary is in each value that a unit gives.
const canary = "CANARY-5d1b"

// saysNowhere looks for the canary in all that can be read without the right to read Secrets:
// our objects, pods, ConfigMaps, events, and what the manager has logged.
func (c *cluster) saysNowhere(when string, logged *background.Output) {
	c.Helper()
	lists := map[string]client.ObjectList{
		"a pod": &corev1.PodList{}, "a ConfigMap": &corev1.ConfigMapList{}, "an event": &eventsv1.EventList{}, "an event of v1": &corev1.EventList{},
	}
	for _, k := range crdv1.Kinds() {
		lists["a "+k.Name] = k.NewList().(client.ObjectList)
	}
	for what, list := range lists {
		c.List(list)
		text, err := json.Marshal(list)
		c.Must(err)
		if strings.Contains(string(text), canary) {
			c.Errorf("%s, a value is in %s", when, what)
		}
	}
	if strings.Contains(logged.String(), canary) {
		c.Errorf("%s, a value is logged:\n%s", when, logged)
	}
}

// A value goes through the hands of the manager from the unit that gives it to the Secrets of the
// namespaces. Whatever becomes of the units, it is to be read there alone.
func TestAValueIsInSecretsAlone(t *testing.T) {
	const ns = "units-canary"
	c, logged := newCluster(t, ns), &background.Output{}
	c.Accounts(c.operator(), "default")
	c.manage(manager.Config{
		Workflows: units,
		Logger:    slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	r := c.resourceOf("units-canary-db", twoSteps)
	first := c.unitPod(r.Name, "provision", 1)
	c.gives(r.Name, "provision.host", canary)
	c.ends(first, iocontext.Ending{})
	second := c.unitPod(r.Name, "seed", 1)
	c.saysNowhere("while a unit has it as input", logged)
	c.ends(second, iocontext.Ending{ExitCode: 1, Reason: "ScriptFailed", Tail: "no such host <host>"})
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", crdv1.ReasonResourceFailed), "no such host <host>")
	c.saysNowhere("after a unit that failed", logged)
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Annotations = map[string]string{crdv1.AnnotationRetry: "first"} })
	c.ends(c.unitPod(r.Name, "seed", 2), iocontext.Ending{})
	c.Condition(r, crdv1.ConditionReady, "True", "Ready")
	c.Get(r)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: r.OutputsSecret()}}
	if c.Get(secret); string(secret.Data["provision.host"]) != canary {
		t.Errorf("its Secret has %v", secret.Data)
	}
	c.saysNowhere("when it is in its Secret", logged)

	c.Remove(r)
	c.ends(c.unitPod(r.Name, "remove", 1), iocontext.Ending{ExitCode: 1, Tail: "<host> is in use"})
	c.Says(c.Condition(r, crdv1.ConditionReady, "False", "ScriptFailed"), "<host> is in use")
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Annotations[crdv1.AnnotationGiveUp] = "true" })
	c.Gone(r)
	c.saysNowhere("when somebody has given up", logged)

	more := strings.Replace(strings.Replace(twoSteps, "{name: host}]", "{name: host}, {name: more}]", 1),
		"outputExports: [", "outputExports: [{outputName: more, fromPath: /tmp/more}, ", 1)
	r = c.resourceOf("units-canary-large", more)
	first = c.unitPod(r.Name, "provision", 1)
	c.gives(r.Name, "provision.host", canary)
	c.gives(r.Name, "provision.more", canary+strings.Repeat("x", iocontext.MaxValue-len(canary)))
	c.ends(first, iocontext.Ending{})
	c.ends(c.unitPod(r.Name, "seed", 1), iocontext.Ending{})
	c.Condition(r, crdv1.ConditionReady, "False", crdv1.ReasonResourceFailed)
	c.saysNowhere("when no Secret can hold it", logged)
	if logged.String() == "" {
		t.Error("nothing is logged")
	}
}
