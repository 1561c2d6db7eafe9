package sweep

import (
	"context"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
)

// sidecar is the name of the sidecar's container.
const sidecar = devmesh.ContainerName

// step is an action of users. After it the test waits until the controllers are idle.
type step struct {
	name string
	do   func(ctx context.Context, w *World) error
}

// Scenario is a sequence of actions of users, beside six baselines.
type Scenario []step

// Whole is the scenario of the crash sweep: all is made, all is changed, all goes.
func Whole() Scenario {
	return Scenario{{"everything is made", makeAll}, {"everything is changed", changeAll}, {"everything goes", removeAll}}
}

// Again is one in which a sandbox goes, and another one of its name comes.
func Again() Scenario {
	return Scenario{
		{"everything is made", makeAll},
		{"a sandbox goes", func(ctx context.Context, w *World) error { return w.remove(ctx, &crdv1.SignadotSandbox{}, "sweep-b") }},
		{"another one of its name comes", func(ctx context.Context, w *World) error { return w.make(ctx, sandboxB) }},
		{"everything is changed", changeAll},
		{"everything goes", removeAll},
	}
}

const sandboxA = `
apiVersion: signadot.com/v1
kind: SignadotSandbox
metadata: {name: sweep-a}
spec:
  id: sweep-a-key
  name: sweep-a
  customization:
    patches:
    - target: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: shop}
      strategic: {spec: {template: {spec: {containers: [{name: main, image: "shop:a"}]}}}}
    - target: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: cart}
      merge: {metadata: {annotations: {forked: "yes"}}}
    - target: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: cart}
      json: [{op: replace, path: /spec/template/spec/containers/0/image, value: "cart:a"}]
  virtualWorkloads:
  - {name: ads, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: ads}}
  externalWorkloads:
  - {name: mail, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: mail},
     tunnel: {baselineToLocals: [{baselinePort: 8080, localAddress: "localhost:3000"}]}}
`

const sandboxB = `
apiVersion: signadot.com/v1
kind: SignadotSandbox
metadata: {name: sweep-b}
spec:
  id: sweep-b-key
  customization:
    patches:
    - target: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: pay}
      strategic: {spec: {template: {spec: {containers: [{name: main, env: [{name: MODE, value: b}]}]}}}}
  externalWorkloads:
  - {name: stock, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: stock},
     tunnel: {baselineToLocals: [{baselinePort: 8080, localAddress: "localhost:3001"}]}}
`

const group = `
apiVersion: signadot.com/v1
kind: SignadotRouteGroup
metadata: {name: sweep-group}
spec: {routingKey: sweep-group-key, sandboxNames: [sweep-a, sweep-b]}
`

// makeAll makes the sandboxes and the group at once.
func makeAll(ctx context.Context, w *World) error {
	return w.make(ctx, strings.Join([]string{group, sandboxA, sandboxB}, "\n---\n"))
}

// changeAll changes a patch, the image of a baseline, and who takes part, at once.
func changeAll(ctx context.Context, w *World) error {
	return errors.Join(
		edit(ctx, w, "sweep-b", &crdv1.SignadotSandbox{}, func(s *crdv1.SignadotSandbox) {
			s.Spec.Customization.Patches[0].Strategic.Raw =
				[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"MODE","value":"other"}]}]}}}}`)
			added := *s.Spec.Customization.Patches[0].DeepCopy()
			added.Target.Name = "find"
			s.Spec.Customization.Patches = append(s.Spec.Customization.Patches, added)
		}),
		edit(ctx, w, "shop", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[1].Image = "beside:2"
		}),
		edit(ctx, w, "sweep-a", &crdv1.SignadotSandbox{}, func(s *crdv1.SignadotSandbox) {
			s.Spec.Customization.Patches = s.Spec.Customization.Patches[:1]
			s.Spec.VirtualWorkloads = nil
		}),
	)
}

// removeAll removes the sandboxes and the group at once.
func removeAll(ctx context.Context, w *World) error {
	return errors.Join(
		w.remove(ctx, &crdv1.SignadotRouteGroup{}, "sweep-group"),
		w.remove(ctx, &crdv1.SignadotSandbox{}, "sweep-a"),
		w.remove(ctx, &crdv1.SignadotSandbox{}, "sweep-b"),
	)
}
