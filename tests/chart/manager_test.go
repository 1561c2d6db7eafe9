package chart

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/go-logr/logr"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tools/wait"
)

const webhookConfiguration = "signadot-mutating-webhook-configuration"

// runManager runs the manager of an installed release under its own service
// account, so with the rights that the chart gives and no others, until the
// returned function is called. The log is in memory, and instead of the pod's
// ports it takes any.
func (s apiServer) runManager(t *testing.T, spec corev1.PodSpec, namespaces []string) (stop func()) {
	t.Helper()
	settings, err := manager.ParseSettings(spec.Containers[0].Args, getenv(spec), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	access := rest.CopyConfig(s.config)
	access.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + spec.ServiceAccountName,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	main, err := manager.New(t.Context(), manager.Config{
		REST: access, Log: memory.New(), Inject: settings.Inject, LeaderElect: settings.LeaderElect, Namespaces: namespaces,
		AskAuthors: true, MetricsAddress: "0", HealthAddress: "0", WebhookAddress: "127.0.0.1:0", SeveralInProcess: true,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return background.Run(t, main.Run)
}

// expectManagerWorks runs the manager through the life of one sandbox.
func (s apiServer) expectManagerWorks(t *testing.T, spec corev1.PodSpec, namespaces []string) {
	t.Helper()
	log.SetLogger(logr.Discard())
	stop := s.runManager(t, spec, namespaces)
	defer stop()
	baseline := s.create(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: customer, namespace: shop, labels: {app: customer}}
spec:
  selector: {matchLabels: {app: customer}}
  template:
    metadata: {labels: {app: customer}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: customer, ports: [{containerPort: 8080}]}]}`)
	service := s.create(t, `
apiVersion: v1
kind: Service
metadata: {name: customer, namespace: shop}
spec: {selector: {app: customer}, ports: [{port: 80, targetPort: 8080}]}`)
	sandbox := s.create(t, `
apiVersion: signadot.com/v1
kind: SignadotSandbox
metadata: {name: new-customer}
spec:
  id: new-customer
  customization:
    patches:
      - target: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: customer}
        strategic: {spec: {template: {spec: {containers: [{name: main, image: "customer:new"}]}}}}`)
	s.eventually(t, "the sandbox is forked and routed", func() error {
		return errors.Join(s.expectCount("apps/v1", "Deployment", 2), s.expectCount("v1", "Service", 2),
			s.expectCount("signadot.com/v1", "ForkedWorkload", 1), s.expectCount("signadot.com/v1", "RoutingConfig", 1))
	})
	s.eventually(t, "every object has its conditions", func() error {
		return errors.Join(s.expectConditions("SignadotSandbox"), s.expectConditions("ForkedWorkload"), s.expectConditions("RoutingConfig"))
	})
	s.eventually(t, "the manager's state is in the chart's objects", func() error { return s.kept(t.Context()) })
	if err := s.Delete(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the sandbox is gone with all it made", func() error {
		return errors.Join(s.expectCount("apps/v1", "Deployment", 1), s.expectCount("v1", "Service", 1),
			s.expectCount("signadot.com/v1", "ForkedWorkload", 0), s.expectCount("signadot.com/v1", "RoutingConfig", 0),
			s.expectCount("signadot.com/v1", "SignadotSandbox", 0))
	})
	for _, o := range []*unstructured.Unstructured{baseline, service} {
		if err := s.Delete(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
}

// create makes an object from YAML.
func (s apiServer) create(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	if err := s.unasked(t).Create(t.Context(), o); err != nil {
		t.Fatalf("%s: %v", title(o), err)
	}
	return o
}

// unasked returns a client that may do anything and whose objects the API server does not
// ask the manager about: there is no network here by which it could (the webhook itself is
// tested in reconcilers/admission).
func (s apiServer) unasked(t *testing.T) client.Client {
	t.Helper()
	access := rest.CopyConfig(s.config)
	access.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":signadot-controller-manager", Groups: []string{"system:masters"},
	}
	c, err := client.New(access, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits until holds gives nil.
func (s apiServer) eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	wait.Eventually(t, patience, what, holds)
}

// expectCount returns nil when namespace shop, or the cluster for a kind that has no
// namespace, holds that many objects of a kind.
func (s apiServer) expectCount(apiVersion, kind string, want int) error {
	items, err := s.list(apiVersion, kind)
	if err == nil && len(items) != want {
		return fmt.Errorf("%d objects of kind %s, want %d", len(items), kind, want)
	}
	return err
}

// expectConditions returns nil when every object of a kind of ours has conditions.
func (s apiServer) expectConditions(kind string) error {
	items, err := s.list("signadot.com/v1", kind)
	for _, o := range items {
		if conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions"); len(conditions) == 0 {
			err = errors.Join(err, fmt.Errorf("%s has no conditions", title(&o)))
		}
	}
	return err
}

// list lists a kind in namespace shop, or in the cluster when it has no namespace.
func (s apiServer) list(apiVersion, kind string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	options := []client.ListOption{client.InNamespace("shop")}
	if kind == "RoutingConfig" || kind == "SignadotSandbox" || kind == "SignadotRouteGroup" {
		options = nil
	}
	err := s.List(context.Background(), list, options...)
	return list.Items, err
}

// kept returns what the manager has not written into the chart's objects.
func (s apiServer) kept(ctx context.Context) error {
	at := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }
	secret, position, lease := &corev1.Secret{}, &corev1.ConfigMap{}, &coordinationv1.Lease{}
	config, err := s.webhooks(ctx)
	err = errors.Join(err, s.Get(ctx, at("webhook-server-cert"), secret), s.Get(ctx, at("switchyard-routing-log"), position),
		s.Get(ctx, at("42470b05.signadot.com"), lease))
	if err != nil {
		return err
	}
	var missing []error
	if len(secret.Data) == 0 {
		missing = append(missing, errors.New("no certificate in the Secret"))
	}
	if len(position.Data) == 0 {
		missing = append(missing, errors.New("no position of the log in the ConfigMap"))
	}
	if lease.Spec.RenewTime == nil {
		missing = append(missing, errors.New("no leader in the Lease"))
	}
	for _, hook := range config.Webhooks {
		if len(hook.ClientConfig.CABundle) == 0 {
			missing = append(missing, fmt.Errorf("no CA bundle in webhook %s", hook.Name))
		}
	}
	validating := &registrationv1.ValidatingWebhookConfiguration{}
	if err := s.Get(ctx, client.ObjectKey{Name: "signadot-validating-webhook-configuration"}, validating); err != nil {
		return err
	}
	for _, hook := range validating.Webhooks {
		if len(hook.ClientConfig.CABundle) == 0 {
			missing = append(missing, fmt.Errorf("no CA bundle in webhook %s", hook.Name))
		}
	}
	people := &corev1.ConfigMap{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "signadot-authority"}, people); err != nil {
		return err
	}
	if people.Data["ca.crt"] == "" {
		missing = append(missing, errors.New("no authority in ConfigMap signadot-authority"))
	}
	return errors.Join(missing...)
}
