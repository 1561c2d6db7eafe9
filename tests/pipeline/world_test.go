package pipeline

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust/authority"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/cable"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/traffic"
)

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

const (
	namespace    = "shop"
	workload     = "cart"
	workloadPort = 8080
)

// path is the whole of it, with one baseline in it: Deployment shop/cart behind
// Service shop/cart, port 80 to port 8080 of its one pod.
type path struct {
	*world.World
	logger *slog.Logger
	rest   string // the route server's REST API
	grpc   string // host:port of its gRPC
	xds    string // host:port of xDS, as the pod reaches it
	pod    *podnet.Pod
	cable  *cable.Cable // what sidecars reach the route server over
	tls    *trusted
	keeper *keeping
	sender traffic.Sender

	mu sync.Mutex
	// served are how often the baseline has served a request, by its query.
	served map[string]int
}

// newWorld starts everything and waits until the baseline serves through its
// sidecar.
func newWorld(t *testing.T) *path {
	t.Helper()
	return newWorldWith(t, authority.Policy{})
}

// newWorldWith does so with certificates of this policy, and further settings of the manager.
func newWorldWith(t *testing.T, policy authority.Policy, settings ...func(*manager.Config)) *path {
	t.Helper()
	w := &path{World: world.New(t), logger: logger(t), served: map[string]int{}}
	w.startPod()
	w.certify(policy)
	log := w.bus()
	w.serve(log)
	w.control(log, settings...)
	w.baseline()
	w.sidecar()
	w.sender = traffic.Sender{
		URL: "http://" + net.JoinHostPort(w.pod.IP.String(), fmt.Sprint(workloadPort)) + "/", Client: traffic.NewClient(), Judge: judge,
	}
	w.Eventually("the baseline serves through its sidecar", func() error { return w.serves("", traffic.Baseline) })
	return w
}

func (w *path) startPod() {
	w.Helper()
	pod, err := podnet.NewPod(1)
	w.Must(err)
	w.pod = pod
	w.Cleanup(func() {
		if err := pod.Close(); err != nil {
			w.Error(err)
		}
	})
}

// baseline makes the Deployment and its Service, and runs its application in
// the pod's namespace.
func (w *path) baseline() {
	w.Helper()
	w.Namespaces(namespace)
	w.Make(&appsv1.Deployment{}, `
metadata: {name: cart, namespace: shop, labels: {app: cart}}
spec:
  replicas: 1
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "cart:1", ports: [{name: http, containerPort: 8080}]}]}`)
	w.Make(&corev1.Service{}, `
metadata: {name: cart, namespace: shop}
spec: {selector: {app: cart}, ports: [{name: http, port: 80, targetPort: http}]}`)
	listener, err := w.pod.Listen(workloadPort)
	w.Must(err)
	w.application(listener, traffic.Baseline)
}

// application answers on the listener with the name of its side.
func (w *path) application(listener net.Listener, side traffic.Side) {
	app := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		// What we use inside must reach no application.
		for name := range r.Header {
			if len(name) > 13 && name[:13] == "X-Switchyard-" || name == "Sd-Return" {
				http.Error(rw, "saw header "+name, http.StatusInternalServerError)
				return
			}
		}
		if side == traffic.Baseline {
			w.mu.Lock()
			w.served[r.URL.RawQuery]++
			w.mu.Unlock()
		}
		_, _ = io.WriteString(rw, string(side)) // A client that is gone is judged by itself.
	})}
	done := make(chan error, 1)
	go func() { done <- app.Serve(listener) }()
	w.Cleanup(func() {
		if err := app.Close(); err != nil {
			w.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			w.Errorf("the application of the %s: %v", side, err)
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

// sandbox applies a sandbox that forks cart; id is its name and routing key.
func (w *path) sandbox(id string) *crdv1.SignadotSandbox {
	w.Helper()
	s := &crdv1.SignadotSandbox{}
	w.Make(s, fmt.Sprintf(`
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
func (w *path) fork(sandbox string) *crdv1.ForkedWorkload {
	w.Helper()
	fork := w.forkedWorkload(sandbox)
	service := &corev1.Service{}
	w.get(service, fork.Status.RoutingConfig.Services[0].To)
	ip := net.ParseIP(service.Spec.ClusterIP)
	w.Must(podnet.ServeAddress(ip))
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), fmt.Sprint(service.Spec.Ports[0].Port)))
	w.Must(err)
	w.application(listener, traffic.Fork)
	w.Available(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fork.Status.Fork.ObjectRef.Name}})
	return fork
}

// forkedWorkload waits for the sandbox's ForkedWorkload, its Deployment and its
// Service.
func (w *path) forkedWorkload(sandbox string) *crdv1.ForkedWorkload {
	w.Helper()
	var fork *crdv1.ForkedWorkload
	w.Eventually("sandbox "+sandbox+" has a fork", func() error {
		list := &crdv1.ForkedWorkloadList{}
		if err := w.Client.List(w.Context(), list, client.InNamespace(namespace), client.MatchingLabels{crdv1.LabelSandbox: sandbox}); err != nil {
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

// get reads an object of the namespace.
func (w *path) get(o client.Object, name string) {
	w.Helper()
	o.SetNamespace(namespace)
	o.SetName(name)
	w.Get(o)
}

// serves returns nil when a request with the key is served by that side.
func (w *path) serves(key string, want traffic.Side) error {
	side, err := w.sender.Send(w.Context(), key)
	if err == nil && side != want {
		err = fmt.Errorf("key %q is served by the %s", key, side)
	}
	return err
}
