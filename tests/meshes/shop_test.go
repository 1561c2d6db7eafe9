package meshes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

const (
	operator = "signadot"
	shopName = "shop"
)

// podStarts is how long a fork's pod takes until it is ready.
const podStarts = time.Second

// shop is a chain of Services in a real mesh, frontend -> customer -> driver, and a manager that
// routes by it. Deployments have no pods: a server at an address of its own stands for each.
type shop struct {
	*Mesh
	relay *relay
	// next is who is called by whom, by the name of the baseline.
	next map[string]string
	// ips counts the addresses that were given away.
	ips byte
	// served counts the HTTP requests that each server has served, by its name and their baggage.
	mu     sync.Mutex
	served map[string]int
}

func openShop(t *testing.T, meshes manager.Config) *shop {
	w := world.New(t)
	Install(w)
	s := &shop{Mesh: Start(w), next: map[string]string{"frontend": "customer", "customer": "driver"}, served: map[string]int{}}
	s.Namespaces(shopName, operator)
	s.manage(meshes)
	for _, name := range []string{"frontend", "customer", "driver"} {
		s.baseline(name)
	}
	s.Run(Proxy{Kind: Sidecar, Name: "client", Namespace: shopName, IP: net.IPv4(10, 77, 2, 1)})
	s.Run(Proxy{Kind: Gateway, Name: "edge", Namespace: shopName, IP: gatewayIP, Labels: gatewayLabels})
	return s
}

// manage runs a manager with the chart's webhook for VirtualServices, until the test ends. meshes
// says by which it routes.
func (s *shop) manage(meshes manager.Config) {
	s.Helper()
	for _, name := range []string{"webhook-server-cert", "traffic-tls"} {
		s.Make(&corev1.Secret{}, `{metadata: {name: `+name+`, namespace: `+operator+`}}`)
	}
	main, err := manager.New(s.Context(), manager.Config{
		REST: s.As("system:serviceaccount:"+operator+":signadot-controller-manager", "system:masters"), Log: memory.New(), Istio: meshes.Istio, GatewayAPI: meshes.GatewayAPI,
		Traffic: meshes.Traffic, Trust: meshes.Trust,
		Inject:         inject.Config{Sidecar: inject.Container{Image: "sidecar"}, Redirect: inject.Container{Image: "redirect"}}.WithDefaults(),
		WebhookAddress: "127.0.0.1:0", MetricsAddress: "0", HealthAddress: "0", SeveralInProcess: true, Logger: world.Quiet,
	})
	s.Must(err)
	s.relay = openRelay(s, "127.0.0.1:0", main.WebhookAddress)
	hooks := &registrationv1.MutatingWebhookConfiguration{}
	s.Must(apiserver.FromChart("published", "MutatingWebhookConfiguration", hooks))
	hooks.Webhooks = slices.DeleteFunc(hooks.Webhooks, func(w registrationv1.MutatingWebhook) bool { return w.Name == "author.signadot.com" })
	for i := range hooks.Webhooks {
		hooks.Webhooks[i].ClientConfig.Service.Port = new(s.relay.port)
	}
	s.Create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: hooks.Webhooks[0].ClientConfig.Service.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, hooks)
	background.Run(s, main.Run)
	s.Eventually("the webhook is ready", main.WebhookReady)
}

// baseline makes a Deployment, its Service, and what stands for its pod.
func (s *shop) baseline(name string) {
	s.Helper()
	d := &appsv1.Deployment{}
	s.Make(d, `
metadata: {name: `+name+`, namespace: `+shopName+`, labels: {app: `+name+`}}
spec:
  selector: {matchLabels: {app: `+name+`}}
  template:
    metadata: {labels: {app: `+name+`}}
    spec: {containers: [{name: main, image: "`+name+`:1", ports: [{name: http, containerPort: `+strconv.Itoa(TargetPort)+`}]}]}`)
	service := echoService(shopName, name)
	service.Spec.Selector = map[string]string{"app": name}
	service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "grpc", Port: grpcPort, AppProtocol: new("grpc")})
	ip := s.stand(name, name, nil)
	s.Create(service, endpoints(shopName, name, ip))
	s.Available(d)
}

// stand has a server stand for a pod, until it is to end: it answers with its name, and then
// with what the next Service answers, which it asks by its sidecar as it is asked itself.
func (s *shop) stand(name, baseline string, end <-chan struct{}) net.IP {
	s.Helper()
	s.ips++
	ip := net.IPv4(10, 77, 1, s.ips)
	s.Must(podnet.ServeAddress(ip))
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", net.JoinHostPort(ip.String(), strconv.Itoa(TargetPort)))
	s.Must(err)
	l := &link{name: name, serves: func(baggage string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.served[name+" "+baggage]++
	}}
	if next := s.next[baseline]; next != "" {
		l.get, l.call = s.ask(net.IPv4(127, 0, 0, 1), serviceHost(next), Port, grpcPort)
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Protocols: traffic.Protocols(true, true), Handler: l.handler()}
	go func() {
		select {
		case <-end:
		case <-s.Context().Done():
		}
		_ = server.Shutdown(context.Background())
	}()
	go func() { _ = server.Serve(listener) }() // until it is to end
	return ip
}

// sandbox makes a sandbox that forks a Deployment, has a server stand for the fork's pod while
// there is the fork, and waits until it is ready.
func (s *shop) sandbox(key, baseline string) *crdv1.SignadotSandbox {
	s.Helper()
	box := &crdv1.SignadotSandbox{}
	s.Make(box, `{apiVersion: signadot.com/v1, kind: SignadotSandbox, metadata: {name: `+key+`},
  spec: {id: `+key+`, customization: {patches: [{target: {apiVersion: apps/v1, kind: Deployment, namespace: `+shopName+`, name: `+baseline+`},
    strategic: {spec: {template: {spec: {containers: [{name: main, image: "`+baseline+`:fork"}]}}}}}]}}}`)
	d := s.fork(baseline)
	var services corev1.ServiceList
	s.Eventually("the fork has a Service", func() error {
		s.List(&services, client.InNamespace(shopName), client.MatchingLabels{crdv1.LabelForkedWorkload: d.Labels[crdv1.LabelForkedWorkload]})
		if len(services.Items) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	s.Must(wait.For(s.Context(), podStarts))
	ended := make(chan struct{})
	ip := s.stand("fork of "+baseline, baseline, ended)
	var addresses []client.Object
	for i := range services.Items {
		addresses = append(addresses, endpoints(shopName, services.Items[i].Name, ip))
	}
	s.Create(addresses...)
	s.Available(d)
	background.Run(s, func(ctx context.Context) error {
		for wait.For(ctx, 10*time.Millisecond) == nil {
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(d), &appsv1.Deployment{}); apierrors.IsNotFound(err) {
				close(ended)
				for _, o := range addresses { // They go with the Service.
					if err := client.IgnoreNotFound(s.Client.Delete(ctx, o)); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return nil
			}
		}
		return nil
	})
	s.Condition(box, crdv1.ConditionReady, "True", "Ready")
	return box
}

// fork waits for the Deployment that is the fork of another.
func (s *shop) fork(baseline string) *appsv1.Deployment {
	s.Helper()
	d := &appsv1.Deployment{}
	s.Eventually("there is a fork of "+baseline, func() error {
		var all crdv1.ForkedWorkloadList
		s.List(&all, client.InNamespace(shopName))
		for _, w := range all.Items {
			if w.Spec.Baseline.Name == baseline && w.Status.Fork != nil {
				return s.Client.Get(s.Context(), client.ObjectKey{Namespace: shopName, Name: w.Status.Fork.ObjectRef.Name}, d)
			}
		}
		return errors.New("there is none")
	})
	return d
}

// kubectl is a command of the owner's.
func (s *shop) kubectl(in string, args ...string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(apiserver.Binaries(), "kubectl"), append([]string{"--kubeconfig", s.Kubeconfig}, args...)...) //nolint:gosec // the test's own
	cmd.Stdin = strings.NewReader(in)
	if said, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("kubectl %s: %s", strings.Join(args, " "), bytes.TrimSpace(said))
	}
}

// gaps counts from now on the versions of VirtualServices without routes of ours, until it is
// asked.
func (s *shop) gaps() func() int {
	s.Helper()
	before, position := s.versions()
	seen, err := s.Client.Watch(s.Context(), virtualServices(), client.InNamespace(shopName),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: position}})
	s.Must(err)
	return func() (n int) {
		defer seen.Stop()
		last, _ := s.versions()
		for name, version := range before {
			if last[name] == version {
				delete(last, name) // it has not changed
			}
		}
		for len(last) > 0 {
			e := <-seen.ResultChan()
			u, is := e.Object.(*unstructured.Unstructured)
			if !is {
				s.Fatalf("the watch says %+v", e)
			}
			if routes, err := json.Marshal(u.Object["spec"]); err != nil || !bytes.Contains(routes, []byte(names.Prefix)) {
				n++
			}
			if last[u.GetName()] == u.GetResourceVersion() {
				delete(last, u.GetName())
			}
		}
		return n
	}
}

// versions returns the version of each VirtualService, and that of the list.
func (s *shop) versions() (of map[string]string, list string) {
	s.Helper()
	all := virtualServices()
	s.List(all, client.InNamespace(shopName))
	of = map[string]string{}
	for i := range all.Items {
		of[all.Items[i].GetName()] = all.Items[i].GetResourceVersion()
	}
	return of, all.GetResourceVersion()
}

func virtualServices() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(istioadapter.VirtualServices.GroupVersion().WithKind("VirtualServiceList"))
	return list
}

// relay forwards connections to an address while it is not away.
type relay struct {
	port int32
	mu   sync.Mutex
	away bool
	open map[net.Conn]bool
}

func openRelay(t testing.TB, at string, to func() string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{port: int32(l.Addr().(*net.TCPAddr).Port), open: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test ends
			}
			go r.lead(c, to())
		}
	}()
	return r
}

// lead copies both ways until one end closes.
func (r *relay) lead(c net.Conn, to string) {
	defer c.Close()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	r.mu.Lock()
	away := r.away
	r.open[c] = true
	r.mu.Unlock()
	if away {
		return
	}
	go func() {
		_, _ = io.Copy(far, c)
		_ = far.Close()
	}()
	_, _ = io.Copy(c, far)
	r.mu.Lock()
	delete(r.open, c)
	r.mu.Unlock()
}

func (r *relay) isAway() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away
}

// set has the relay go away, with all that it leads, or come back.
func (r *relay) set(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
	for c := range r.open {
		_ = c.Close()
	}
}
