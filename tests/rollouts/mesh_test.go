package rollouts_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/world"
)

// release is a Rollout with a root Service beside a stable and a canary one. Argo sets their
// weights in a VirtualService. NAME is its name, and ROUTES names the route or is empty.
const release = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: NAME, namespace: argo}
  spec: {selector: {app: NAME}, ports: [{name: http, port: 80, targetPort: http}]}
- apiVersion: v1
  kind: Service
  metadata: {name: NAME-stable, namespace: argo}
  spec: {selector: {app: NAME}, ports: [{name: http, port: 80, targetPort: http}]}
- apiVersion: v1
  kind: Service
  metadata: {name: NAME-canary, namespace: argo}
  spec: {selector: {app: NAME}, ports: [{name: http, port: 80, targetPort: http}]}
- apiVersion: networking.istio.io/v1
  kind: VirtualService
  metadata: {name: NAME, namespace: argo}
  spec:
    hosts: [NAME]
    http:
    - name: primary
      route:
      - {destination: {host: NAME-stable}, weight: 100}
      - {destination: {host: NAME-canary}, weight: 0}
- apiVersion: argoproj.io/v1alpha1
  kind: Rollout
  metadata: {name: NAME, namespace: argo}
  spec:
    replicas: 2
    selector: {matchLabels: {app: NAME}}
    template:
      metadata: {labels: {app: NAME}}
      spec: {containers: [{name: main, image: "NAME:1", ports: [{name: http, containerPort: 8080}]}]}
    strategy:
      canary:
        stableService: NAME-stable
        canaryService: NAME-canary
        trafficRouting: {istio: {virtualService: {name: NAMEROUTES}}}
        steps: [{setWeight: 50}, {pause: {}}]
`

// TestReleasesBesideSandboxes has Argo release a Rollout while a sandbox forks it: its phase and the
// weights of the VirtualService are those of a release without a sandbox.
func TestReleasesBesideSandboxes(t *testing.T) {
	c := startIn(t, istioadapter.Settings{Enabled: true})
	c.installArgo()
	for name, r := range map[string]struct {
		routes string
		// derived: the VirtualService gets routes for the sandbox.
		derived bool
	}{
		"names":  {", routes: [primary]", true},
		"infers": {"", false},
	} {
		t.Run("a Rollout that "+name+" its route", func(t *testing.T) {
			c := &cluster{World: c.In(t), log: c.log, asked: c.asked, output: c.output}
			c.create(strings.ReplaceAll(strings.ReplaceAll(release, "ROUTES", r.routes), "NAME", name))
			c.Eventually("Argo has brought it up", func() error { return c.healthy(name) })
			s := &crdv1.SignadotSandbox{}
			c.Make(s, "{apiVersion: signadot.com/v1, kind: SignadotSandbox, metadata: {name: of-"+name+"}, spec: "+forking(name)+"}")
			c.Eventually("the sandbox has its routes, or the reason why not", func() error { return c.routed(name, r.derived) })
			world.Edit(c.World, c.rollout(name), func(u *unstructured.Unstructured) { setImage(u, name+":2") })
			c.Eventually("the release waits at its step", func() error { return c.at(name, "Paused", 50, r.derived) })
			c.promote(name)
			c.Eventually("the release ends", func() error { return c.at(name, "Healthy", 0, r.derived) })
			c.Remove(s)
			c.Gone(s)
			c.Eventually("the VirtualService is as it was", func() error { return c.at(name, "Healthy", 0, false) })
		})
	}
}

// virtualService reads that of a Rollout.
func (c *cluster) virtualService(name string) *unstructured.Unstructured {
	c.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(istioadapter.VirtualServices)
	c.get(u, name)
	return u
}

// routed returns why a VirtualService has no routes for sandboxes, or why an IstioRoute is not ready;
// if the VirtualService is to have no routes, why the IstioRoute of the root Service does not report the
// Rollout.
func (c *cluster) routed(name string, derived bool) error {
	c.Helper()
	if has := names.HasRoutes(c.virtualService(name)); has != derived {
		return fmt.Errorf("it has routes: %v", has)
	}
	var all crdv1.IstioRouteList
	c.Must(c.Client.List(c.Context(), &all, client.InNamespace(namespace)))
	found := 0
	for i := range all.Items {
		service := all.Items[i].Spec.Managed.TargetService
		if service != name && (!derived || !strings.HasPrefix(service, name+"-")) {
			continue
		}
		found++
		of := crdv1.FindCondition(all.Items[i].Status.Conditions, crdv1.ConditionRoutesApplied)
		if of == nil || derived != (of.Status == "True") || !derived && of.Reason != istio.ReasonReleaseInfersRoute {
			return fmt.Errorf("the condition of Service %s is %+v", service, of)
		}
	}
	if want := map[bool]int{true: 3, false: 1}[derived]; found != want {
		return fmt.Errorf("there are %d IstioRoutes, not %d", found, want)
	}
	return nil
}

// at returns why a Rollout is not in a phase, with this weight of its canary in all routes of the
// VirtualService.
func (c *cluster) at(name, phase string, canary int64, derived bool) error {
	c.Helper()
	u, vs := c.rollout(name), c.virtualService(name)
	now, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	observed, _, _ := unstructured.NestedString(u.Object, "status", "observedGeneration")
	if now != phase || observed != fmt.Sprint(u.GetGeneration()) {
		message, _, _ := unstructured.NestedString(u.Object, "status", "message")
		return fmt.Errorf("Rollout %s is %s: %s", name, now, message)
	}
	if names.HasRoutes(vs) != derived {
		return fmt.Errorf("routes for sandboxes: %v", !derived)
	}
	for _, one := range names.RoutesIn(vs.Object) {
		destinations, _, _ := unstructured.NestedSlice(one.(map[string]any), "route")
		for i, want := range []int64{100 - canary, canary} {
			if weight, _ := destinations[i].(map[string]any)["weight"].(int64); weight != want {
				return fmt.Errorf("the weights are %v", names.RoutesIn(vs.Object))
			}
		}
	}
	return nil
}

// promote ends the pause of a release, as kubectl argo rollouts promote does.
func (c *cluster) promote(name string) {
	c.Helper()
	c.Must(c.Client.Status().Patch(c.Context(), c.rollout(name), client.RawPatch(types.MergePatchType, []byte(`{"status": {"pauseConditions": null}}`))))
}

// forking returns the specification of a sandbox that forks a Rollout.
func forking(name string) string {
	return `{id: k` + name + `, customization: {patches: [{target: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, namespace: argo, name: ` + name + `},
  merge: {metadata: {labels: {of: sandbox}}}}]}}`
}
