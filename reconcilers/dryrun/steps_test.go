package dryrun_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/workflows/execunit"
)

// The API server refuses pods of steps for a namespace, a quota or a limit: a dry run reports it
// before the sandbox is applied, as the Resource does afterwards.
func TestADryRunAsksAboutThePodsOfSteps(t *testing.T) {
	c := start(t, "dry-steps")
	s := &crdv1.SignadotSandbox{}
	c.Read(s, `
apiVersion: signadot.com/v1
kind: SignadotSandbox
metadata: {name: dry-steps}
spec:
  id: dry-steps
  managedResources:
  - name: db
    pluginName: p
    olm:
      preStart:
      - {name: make, type: ExecUnit, outputs: [{name: host}], execUnitTemplate: {script: "#!/bin/sh", outputExports: [{outputName: host, fromPath: /tmp/host}],
          podTemplate: {metadata: {namespace: dry-steps-runs}, spec: {containers: [{name: main, image: a}]}}}}
      postStop:
      - {name: drop, type: ExecUnit, inputs: [{name: host, iocontext: {key: make.host}}], execUnitTemplate: {script: "#!/bin/sh",
          inputInjects: [{inputName: host, dst: {env: HOST}}], podTemplate: {metadata: {namespace: dry-steps-runs}, spec: {containers: [{name: main, image: a}]}}}}`)
	config := c.config()
	config.Client = c.user("")
	config.Steps = func(context.Context) (execunit.Settings, error) {
		return execunit.Settings{InitImage: "i", SidecarImage: "s", Address: "https://nowhere:8443", AuthorAsked: true, OperatorNamespace: "dry-steps-operator"}, nil
	}
	asked := func(config dryrun.Config) (waits []string, unknown string) {
		t.Helper()
		p, err := dryrun.Apply(t.Context(), config, s)
		c.Must(err)
		for _, f := range p.Findings {
			if f.Type == crdv1.ConditionProvisioned && f.InTheWay() {
				waits = append(waits, f.Reason+": "+f.Message)
			}
		}
		return waits, strings.Join(p.Unknown, "\n")
	}
	says := func(why string, got []string, each ...string) {
		t.Helper()
		if len(got) != 2 {
			t.Fatalf("%s: %q", why, got)
		}
		for i, name := range []string{"make", "drop"} {
			for _, part := range append(each, `tep "`+name+`"`) {
				if !strings.Contains(got[i], part) {
					t.Errorf("%s: without %q: %s", why, part, got[i])
				}
			}
		}
	}
	got, _ := asked(config)
	says("no namespace", got, "NamespaceNotFound: ", "its namespace dry-steps-runs does not exist: create it")
	c.Namespaces("dry-steps-runs")
	c.Accounts("dry-steps-runs", "default")
	if got, unknown := asked(config); got != nil || unknown != "" {
		t.Errorf("nothing is in the way: %q, unknown: %s", got, unknown)
	}
	limit := &corev1.LimitRange{}
	c.Make(limit, `{metadata: {name: small, namespace: dry-steps-runs}, spec: {limits: [{type: Container, max: {memory: 64Mi}}]}}`)
	c.Eventually("the limit counts", func() error {
		if got, _ = asked(config); got == nil {
			return errors.New("it does not")
		}
		return nil
	})
	says("a limit", got, "Forbidden: The API server refuses the pod of", "maximum memory usage per Container", "ioInit.resources and ioSidecar.resources of the chart")
	var pods corev1.PodList
	c.List(&pods)
	for i := range pods.Items {
		if pods.Items[i].Namespace == "dry-steps-runs" {
			t.Errorf("pod %s was created", pods.Items[i].Name)
		}
	}

	// A user who cannot create pods there reads that this was not asked.
	c.Grant("dry-stepper", "", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{crdv1.GroupVersion().Group}, Resources: []string{"*"}, Verbs: []string{"*"}})
	config.Reader, config.Client = c.user("dry-stepper"), c.user("dry-stepper")
	c.Eventually("the right is known", func() error { return config.Reader.List(t.Context(), &crdv1.RoutingConfigList{}) })
	if got, unknown := asked(config); got != nil || strings.Count(unknown, "you may not create pods there") != 1 {
		t.Errorf("without the right: %q, unknown: %s", got, unknown)
	}
	config.Steps = func(context.Context) (execunit.Settings, error) {
		return execunit.Settings{}, errors.New("no such Deployment")
	}
	if got, unknown := asked(config); got != nil || !strings.Contains(unknown, "whether it would take the pods of steps: no such Deployment") {
		t.Errorf("without settings: %q, unknown: %s", got, unknown)
	}
}
