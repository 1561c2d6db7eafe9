package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Names that the operator gives things.
const (
	forkedWorkload  = "signadot.com/forked-workload"
	baselineService = "signadot.com/baseline-service"
	derivedFrom     = "signadot.com/derived-from"
)

// sandboxName is that of the sandbox that forks the backends; their names begin with it.
const sandboxName = "fork"

const (
	patience = 3 * time.Minute
	pause    = 100 * time.Millisecond
)

// cluster is the suite's.
type cluster struct {
	*testing.T
	client client.WithWatch
}

// forkAll makes a sandbox that forks the suite's backends, until the test ends.
func forkAll(t *testing.T, access *rest.Config, namespaces []string) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, gatewayv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	reach, err := client.NewWithWatch(access, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{t, reach}
	backends := c.backends(namespaces)
	box := object("SignadotSandbox", sandboxName)
	box.Object["spec"] = map[string]any{"id": routingKey, "name": sandboxName, "customization": map[string]any{"patches": patches(backends)}}
	c.eventually("the sandbox is made", func() error { return reach.Create(t.Context(), box) })
	ctx, cancel := context.WithCancel(context.Background())
	var derived atomic.Int64
	t.Cleanup(func() {
		cancel()
		c.gone(box)
		if n := derived.Load(); n == 0 {
			t.Error("not one route was derived")
		} else {
			t.Logf("%d routes were derived, of %d workloads that were forked", n, len(backends))
		}
	})
	c.eventually("all backends are forked", func() error { return c.forked(t.Context(), len(backends)) })
	go c.follow(ctx, &derived)
}

// backends returns the Deployments that routes of HTTP and gRPC lead to.
func (c cluster) backends(namespaces []string) []appsv1.Deployment {
	var out []appsv1.Deployment
	for _, namespace := range namespaces {
		var all appsv1.DeploymentList
		if err := c.client.List(c.Context(), &all, client.InNamespace(namespace)); err != nil {
			c.Fatal(err)
		}
		for _, d := range all.Items {
			_, gateway := d.Labels["gateway.networking.k8s.io/gateway-name"]
			other := slices.ContainsFunc([]string{"tls-", "tcp-", "coredns"}, func(prefix string) bool { return strings.HasPrefix(d.Name, prefix) })
			if !gateway && !other {
				out = append(out, d)
			}
		}
	}
	return out
}

// patches change nothing but an annotation of the pods.
func patches(of []appsv1.Deployment) []any {
	var out []any
	for _, d := range of {
		out = append(out, map[string]any{
			"target":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": d.Namespace, "name": d.Name},
			"strategic": map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"fork": "true"}}}}},
		})
	}
	return out
}

// forked is an error until there are so many forks with pods that are ready.
func (c cluster) forked(ctx context.Context, want int) error {
	members := &unstructured.UnstructuredList{}
	members.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, "ForkedWorkloadList"))
	if err := c.client.List(ctx, members); err != nil {
		return err
	}
	ready := 0
	for _, m := range members.Items {
		text, err := json.Marshal(m.Object["status"])
		if err != nil {
			return err
		}
		var status struct {
			Conditions []struct{ Type, Status, Message string }
		}
		if err := json.Unmarshal(text, &status); err != nil {
			return err
		}
		for _, condition := range status.Conditions {
			switch {
			case condition.Type == "ForkAvailable" && condition.Status == "True":
				ready++
			case condition.Type == "ForkAvailable":
				return fmt.Errorf("%s: %s", m.GetName(), condition.Message)
			}
		}
	}
	if ready != want {
		return fmt.Errorf("%d of %d are ready", ready, want)
	}
	return nil
}

// gone deletes the sandbox, and waits until nothing is left of it.
func (c cluster) gone(box *unstructured.Unstructured) {
	ctx := context.Background()
	if err := c.client.Delete(ctx, box); err != nil {
		c.Error(err)
	}
	c.eventually("nothing is left of the sandbox", func() error {
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(box), box); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		for _, r := range c.routes(ctx) {
			if r.GetAnnotations()[derivedFrom] != "" {
				return fmt.Errorf("route %s/%s is there", r.GetNamespace(), r.GetName())
			}
		}
		return nil
	})
}

// routes returns all HTTPRoutes and GRPCRoutes.
func (c cluster) routes(ctx context.Context) []client.Object {
	var out []client.Object
	var http gatewayv1.HTTPRouteList
	var grpc gatewayv1.GRPCRouteList
	for _, list := range []client.ObjectList{&http, &grpc} {
		if err := c.client.List(ctx, list); err != nil && ctx.Err() == nil {
			c.Error(err)
		}
	}
	for i := range http.Items {
		out = append(out, &http.Items[i])
	}
	for i := range grpc.Items {
		out = append(out, &grpc.Items[i])
	}
	return out
}

// follow counts the routes that are derived, and plays the owners of ReferenceGrants: who lets
// routes lead to a Service lets them lead to that of its fork.
func (c cluster) follow(ctx context.Context, derived *atomic.Int64) {
	seen := map[types.UID]bool{}
	for tick := time.NewTicker(pause); ctx.Err() == nil; <-tick.C {
		for _, r := range c.routes(ctx) {
			if r.GetAnnotations()[derivedFrom] != "" {
				seen[r.GetUID()] = true
			}
		}
		derived.Store(int64(len(seen)))
		if err := c.grant(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			c.Error(err)
		}
	}
}

// grant adds to each ReferenceGrant that names Services those of their forks.
func (c cluster) grant(ctx context.Context) error {
	var services corev1.ServiceList
	var grants gatewayv1.ReferenceGrantList
	if err := errors.Join(c.client.List(ctx, &services, client.HasLabels{forkedWorkload}), c.client.List(ctx, &grants)); err != nil {
		return err
	}
	for i := range grants.Items {
		g := &grants.Items[i]
		n := len(g.Spec.To)
		for _, to := range g.Spec.To[:n] {
			for _, s := range services.Items {
				same := func(other gatewayv1.ReferenceGrantTo) bool { return other.Name != nil && string(*other.Name) == s.Name }
				if to.Name == nil || s.Annotations[baselineService] != g.Namespace+"/"+string(*to.Name) || slices.ContainsFunc(g.Spec.To, same) {
					continue
				}
				name := gatewayv1.ObjectName(s.Name)
				g.Spec.To = append(g.Spec.To, gatewayv1.ReferenceGrantTo{Group: to.Group, Kind: to.Kind, Name: &name})
			}
		}
		if len(g.Spec.To) > n {
			if err := c.client.Update(ctx, g); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventually waits until check has nothing to complain of.
func (c cluster) eventually(what string, check func() error) {
	c.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("%s: %v", what, err)
		}
	}
}

const apiVersion = "signadot.com/v1"

// object returns one of the operator's.
func object(kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	o.SetName(name)
	return o
}
