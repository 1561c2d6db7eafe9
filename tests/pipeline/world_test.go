package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/sidecars/certs"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/traffic"
)

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

const (
	namespace    = "shop"
	workload     = "cart"
	workloadPort = 8080
)

// world is the whole path, with one baseline in it: Deployment shop/cart behind
// Service shop/cart, port 80 to port 8080 of its one pod.
type world struct {
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	logger *slog.Logger
	api    *rest.Config
	client client.Client
	rest   string // the route server's REST API
	grpc   string // host:port of its gRPC
	xds    string // host:port of xDS, as the pod reaches it
	pod    *podnet.Pod
	cable  *cable // what it goes over
	tls    *authority
	keeper *keeping
	sender traffic.Sender
}

// newWorld starts everything and waits until the baseline serves through its
// sidecar.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, certs.Policy{})
}

// newWorldWith does so with certificates that live as long as a policy says.
func newWorldWith(t *testing.T, policy certs.Policy) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{t: t, ctx: ctx, cancel: cancel, logger: logger(t)}
	t.Cleanup(cancel)
	w.startAPI()
	w.startPod()
	w.certify(policy)
	log := w.bus()
	w.serve(log)
	w.control(log)
	w.baseline()
	w.sidecar()
	w.sender = traffic.Sender{
		URL: "http://" + net.JoinHostPort(w.pod.IP.String(), fmt.Sprint(workloadPort)) + "/", Client: traffic.NewClient(), Judge: judge,
	}
	w.eventually("the baseline serves through its sidecar", func() error { return w.serves("", traffic.Baseline) })
	return w
}

func (w *world) startAPI() {
	w.t.Helper()
	server, err := apiserver.Start()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			w.t.Error(err)
		}
	})
	w.api = server.Config
	scheme, err := manager.Scheme()
	if err != nil {
		w.t.Fatal(err)
	}
	if w.client, err = client.New(w.api, client.Options{Scheme: scheme}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) startPod() {
	w.t.Helper()
	pod, err := podnet.NewPod(1)
	if err != nil {
		w.t.Fatal(err)
	}
	w.pod = pod
	w.t.Cleanup(func() {
		if err := pod.Close(); err != nil {
			w.t.Error(err)
		}
	})
}

// baseline makes the Deployment and its Service, and runs its application in
// the pod's namespace.
func (w *world) baseline() {
	w.t.Helper()
	w.create(&corev1.Namespace{}, `{metadata: {name: `+namespace+`}}`)
	w.create(&appsv1.Deployment{}, `
metadata: {name: cart, namespace: shop, labels: {app: cart}}
spec:
  replicas: 1
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "cart:1", ports: [{name: http, containerPort: 8080}]}]}`)
	w.create(&corev1.Service{}, `
metadata: {name: cart, namespace: shop}
spec: {selector: {app: cart}, ports: [{name: http, port: 80, targetPort: http}]}`)
	listener, err := w.pod.Listen(workloadPort)
	if err != nil {
		w.t.Fatal(err)
	}
	w.application(listener, traffic.Baseline)
}

// application answers on the listener with the name of its side.
func (w *world) application(listener net.Listener, side traffic.Side) {
	app := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		// What we use inside must reach no application.
		for name := range r.Header {
			if len(name) > 13 && name[:13] == "X-Switchyard-" {
				http.Error(rw, "saw header "+name, http.StatusInternalServerError)
				return
			}
		}
		_, _ = io.WriteString(rw, string(side)) // A client that is gone is judged by itself.
	})}
	done := make(chan error, 1)
	go func() { done <- app.Serve(listener) }()
	w.t.Cleanup(func() {
		if err := app.Close(); err != nil {
			w.t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			w.t.Errorf("the application of the %s: %v", side, err)
		}
	})
}

func judge(body []byte) (traffic.Side, error) {
	switch side := traffic.Side(body); side {
	case traffic.Baseline, traffic.Fork:
		return side, nil
	}
	return "", fmt.Errorf("neither side answers %q", body)
}

// create makes an object from YAML.
func (w *world) create(o client.Object, text string) {
	w.t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		w.t.Fatalf("%v in:\n%s", err, text)
	}
	if err := w.client.Create(w.ctx, o); err != nil {
		w.t.Fatalf("create %T: %v", o, err)
	}
}

// sandbox applies a sandbox that forks cart; id is its name and routing key.
func (w *world) sandbox(id string) *crdv1.SignadotSandbox {
	w.t.Helper()
	s := &crdv1.SignadotSandbox{}
	w.create(s, fmt.Sprintf(`
metadata: {name: %[1]s}
spec:
  id: %[1]s
  customization:
    patches:
      - target: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: cart}
        strategic: {spec: {template: {spec: {containers: [{name: main, image: "cart:fork"}]}}}}`, id))
	return s
}

// fork does for the sandbox's fork what a Deployment controller, a kubelet and
// kube-proxy would: it runs an application where the fork's Service leads to,
// and says that the Deployment is available.
func (w *world) fork(sandbox string) *crdv1.ForkedWorkload {
	w.t.Helper()
	fork := w.forkedWorkload(sandbox)
	service := &corev1.Service{}
	w.get(service, fork.Status.RoutingConfig.Services[0].To)
	ip := net.ParseIP(service.Spec.ClusterIP)
	if err := podnet.ServeAddress(ip); err != nil {
		w.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), fmt.Sprint(service.Spec.Ports[0].Port)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.application(listener, traffic.Fork)
	w.available(fork.Status.Fork.ObjectRef.Name)
	return fork
}

// forkedWorkload waits for the sandbox's ForkedWorkload, its Deployment and its
// Service.
func (w *world) forkedWorkload(sandbox string) *crdv1.ForkedWorkload {
	w.t.Helper()
	var fork *crdv1.ForkedWorkload
	w.eventually("sandbox "+sandbox+" has a fork", func() error {
		list := &crdv1.ForkedWorkloadList{}
		if err := w.client.List(w.ctx, list, client.InNamespace(namespace), client.MatchingLabels{crdv1.LabelSandbox: sandbox}); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("there are %d ForkedWorkloads", len(list.Items))
		}
		fork = &list.Items[0]
		if fork.Status.Fork == nil || fork.Status.RoutingConfig == nil || len(fork.Status.RoutingConfig.Services) != 1 || fork.Status.RoutingConfig.Services[0].To == "" {
			return fmt.Errorf("its status is %+v", fork.Status)
		}
		return nil
	})
	return fork
}

// available says that all pods of a Deployment are ready.
func (w *world) available(name string) {
	w.t.Helper()
	w.eventually("Deployment "+name+" can be made available", func() error {
		d := &appsv1.Deployment{}
		if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
			return err
		}
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		return w.client.Status().Update(w.ctx, d)
	})
}

// get reads an object of the namespace.
func (w *world) get(o client.Object, name string) {
	w.t.Helper()
	if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
}

// serves returns nil when a request with the key is served by that side.
func (w *world) serves(key string, want traffic.Side) error {
	side, err := w.sender.Send(w.ctx, key)
	if err == nil && side != want {
		err = fmt.Errorf("key %q is served by the %s", key, side)
	}
	return err
}

// eventually waits until check has nothing to complain of.
func (w *world) eventually(what string, check func() error) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || errors.Is(err, context.Canceled) {
			w.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
