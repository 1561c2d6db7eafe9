package sweep

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/sweep/state"
	"switchyard.dev/tools/wait"
)

// make makes objects from YAML documents.
func (w *World) make(ctx context.Context, text string) error {
	for _, document := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			return fmt.Errorf("read %q: %w", document, err)
		}
		// A previous object of the name may still be terminating.
		var failed error
		err := wait.Until(ctx, patience, "make "+state.Name(o), func() error {
			if failed = w.people.Create(ctx, o.DeepCopy()); apierrors.IsAlreadyExists(failed) || overtaken(failed) == nil {
				return failed
			}
			return nil
		})
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("make %s: %w", state.Name(o), err)
		}
	}
	return nil
}

// edit changes an object, and retries on conflicts.
func edit[T client.Object](ctx context.Context, w *World, name string, o T, change func(o T)) error {
	key := client.ObjectKey{Name: name}
	if namespaced, err := w.people.IsObjectNamespaced(o); err != nil {
		return err
	} else if namespaced {
		key.Namespace = namespace
	}
	return wait.Until(ctx, patience, "change "+name, func() error {
		if err := w.people.Get(ctx, key, o); err != nil {
			return err
		}
		change(o)
		return w.people.Update(ctx, o)
	})
}

// baseline is a Deployment with a sidecar and a pod, and a Service. It listens on 8080.
func baseline(name string) string {
	return strings.ReplaceAll(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: sweep}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec:
      containers:
      - {name: main, image: "NAME:1", ports: [{name: http, containerPort: 8080}, {name: grpc, containerPort: 9090}]}
      - {name: beside, image: "beside:1"}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: sweep}
spec: {selector: {app: NAME}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: NAME-h-1
  namespace: sweep
  labels: {app: NAME, pod-template-hash: h, sidecar.signadot.com/injected: "true"}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: NAME-h, uid: none, controller: true}]
spec: {containers: [{name: main, image: "NAME:1"}]}`, "NAME", name)
}

// ownedRoutes are the routes of users in a mesh.
const ownedRoutes = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: sweep}
spec:
  hosts: [shop]
  http:
  - {name: api, match: [{uri: {prefix: /api}}], route: [{destination: {host: shop}}]}
  - {name: rest, route: [{destination: {host: shop}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: mail, namespace: sweep}
spec: {hosts: [mail], http: [{route: [{destination: {host: mail}}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: sweep}
spec:
  parentRefs: [{group: "", kind: Service, name: cart, port: 80}]
  rules: [{backendRefs: [{name: cart, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: edge, namespace: sweep}
spec:
  parentRefs: [{name: edge}]
  rules:
  - {matches: [{path: {value: /cart}}], backendRefs: [{name: cart, port: 80}]}
  - {backendRefs: [{name: stock, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: pay, namespace: sweep}
spec:
  parentRefs: [{name: edge}]
  rules: [{matches: [{method: {service: shop.Payments}}], backendRefs: [{name: pay, port: 80}]}]`

// settleIn creates the baselines, with pods that have a ready sidecar, and their routes in
// meshes.
func (w *World) settleIn(ctx context.Context) error {
	for _, name := range []string{"shop", "cart", "pay", "mail", "stock", "ads", "find"} {
		if err := w.make(ctx, strings.TrimSpace(baseline(name))); err != nil {
			return err
		}
		pod := &corev1.Pod{}
		if err := w.people.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name + "-h-1"}, pod); err != nil {
			return err
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: sidecar, Ready: true}, {Name: "main", Ready: true}}}
		if err := w.people.Status().Update(ctx, pod); err != nil {
			return err
		}
	}
	if w.meshes {
		if err := w.make(ctx, strings.TrimSpace(ownedRoutes)); err != nil {
			return err
		}
	}
	return w.make(ctx, strings.TrimSpace(`
apiVersion: v1
kind: Service
metadata: {name: shop-grpc, namespace: sweep}
spec: {selector: {app: shop}, ports: [{name: grpc, port: 9000, targetPort: 9090, appProtocol: grpc}, {name: http, port: 81, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: shop-headless, namespace: sweep}
spec: {selector: {app: shop}, clusterIP: None, ports: [{port: 8080}]}`))
}

// remove deletes an object; it is no error when it is not found.
func (w *World) remove(ctx context.Context, o client.Object, name string) error {
	o.SetName(name)
	return wait.Until(ctx, patience, "delete "+name, func() error { return client.IgnoreNotFound(w.people.Delete(ctx, o)) })
}

// wipe ends all managers and takes away whatever there is, the log too.
func (w *World) wipe(ctx context.Context) error {
	w.mu.Lock()
	lives := w.lives
	w.lives = nil
	w.mu.Unlock()
	for _, l := range lives {
		l.Kill()
	}
	err := wait.Until(ctx, patience, "wipe the world", func() error {
		objects, err := w.objects(ctx)
		if err != nil {
			return err
		}
		for i := range objects {
			err = errors.Join(err, w.destroy(ctx, &objects[i]))
		}
		if err == nil && len(objects) > 0 {
			return fmt.Errorf("%s is there", state.Name(&objects[0]))
		}
		return err
	})
	now := client.GracePeriodSeconds(0)
	return errors.Join(err, w.people.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), now),
		w.people.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace)))
}

// destroy takes away one object, whatever holds it.
func (w *World) destroy(ctx context.Context, o *unstructured.Unstructured) error {
	if len(o.GetFinalizers()) > 0 {
		none := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := overtaken(w.people.Patch(ctx, o, none)); err != nil {
			return err
		}
	}
	err := w.people.Delete(ctx, o, client.GracePeriodSeconds(0))
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
