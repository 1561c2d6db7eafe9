package tunnels

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tests/tunnels/capture"
	"switchyard.dev/tools/wait"
)

// Programs of tunnels.
const (
	proxyProgram = "tunnels/cmd/tunnel-proxy"
	apiProgram   = "tunnels/cmd/tunnel-api"
)

// The baseline, and its answer.
const (
	namespace    = control.Namespace
	workloadPort = 8080
	baselineSays = "baseline"
)

var cart = table.Workload{Kind: "Deployment", Namespace: namespace, Name: "cart"}

// Isolate builds the programs and runs this program again in a separate network namespace, where it
// returns. It does not return in a process that is a workstation.
func Isolate() error {
	if process.Role() == roleStation {
		if err := process.Answer(newStation()); err != nil {
			return err
		}
		os.Exit(0)
	}
	return control.Isolate(sidecar.Program, control.ManagerProgram, proxyProgram, apiProgram)
}

// world is all of it.
type world struct {
	ctx     context.Context
	logs    string
	dir     string
	control *control.Plane
	admin   client.WithWatch
	// tls is the folder with the certificate of tunnel-api and of the proxies.
	tls          string
	pods         []*podnet.Pod
	proxies      []*proxy
	api          *program.Program
	apiPod       *podnet.Pod
	manager      *container
	collector    *program.Program
	baseline     *podnet.Pod
	app          *http.Server
	sidecar      *program.Program
	services     *capture.Services
	destinations *capture.Destinations
	stations     []*Station
}

// newWorld starts a world with so many tunnel proxies. Logs, journals and the audit are kept in the
// directory.
func newWorld(ctx context.Context, dir string, proxies int) (w *world, err error) {
	w = &world{ctx: ctx, dir: dir, logs: filepath.Join(dir, "logs"), tls: filepath.Join(dir, "tls")}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	for _, d := range []string{w.logs, w.tls} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return w, err
		}
	}
	// Proxies reach tunnel-api from pod to pod.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		return w, err
	}
	if w.control, err = control.StartManaged(ctx, dir, w.logs); err != nil {
		return w, err
	}
	w.manager = keep(ctx, "the manager", func() (*program.Program, error) {
		if p := w.control.Manager(); p.Running() == nil {
			return p, nil
		}
		err := w.control.StartManager()
		return w.control.Manager(), err
	})
	if w.admin, err = w.control.Server().Client(); err != nil {
		return w, err
	}
	if w.services, err = capture.WatchServices(ctx, w.control.Kube(), namespace); err != nil {
		return w, err
	}
	if w.destinations, err = capture.ServeDestinations(); err != nil {
		return w, err
	}
	for _, step := range []func() error{w.certify, w.startAPI, func() error { return w.startProxies(proxies) }, w.startBaseline, w.collectGarbage} {
		if err := step(); err != nil {
			return w, err
		}
	}
	return w, nil
}

// collectGarbage runs the garbage collector of Kubernetes.
func (w *world) collectGarbage() (err error) {
	cmd := exec.Command(filepath.Join(apiserver.Binaries(), "kube-controller-manager"), "--kubeconfig", w.control.Server().Kubeconfig, //nolint:gosec // a built program
		"--leader-elect=false", "--controllers=garbage-collector-controller", "--secure-port=0")
	w.collector, err = program.Start(w.logs, "kube-controller-manager", cmd, nil)
	return err
}

// certify waits until the manager has issued the certificate, and writes it as a kubelet does.
func (w *world) certify() error {
	var secret *corev1.Secret
	if err := wait.Until(w.ctx, control.Patience, "the manager has issued a certificate", func() (err error) {
		secret, err = w.control.Kube().CoreV1().Secrets(control.System).Get(w.ctx, "tunnel-tls", metav1.GetOptions{})
		if err == nil && len(secret.Data[trust.BundleFile]) == 0 {
			err = errors.New("Secret tunnel-tls is empty")
		}
		return err
	}); err != nil {
		return err
	}
	for name, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(w.tls, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// newPod makes a network namespace from which the API server is reached as from here.
func (w *world) newPod(number byte) (*podnet.Pod, error) {
	pod, err := podnet.NewPod(number)
	if err != nil {
		return nil, err
	}
	w.pods = append(w.pods, pod)
	return pod, w.leadToServer(pod)
}

// leadToServer forwards connections within a pod to the API server's address.
func (w *world) leadToServer(pod *podnet.Pod) error {
	server, err := w.control.Address()
	if err != nil {
		return err
	}
	var l net.Listener
	if err := pod.Do(func() error {
		l, err = net.Listen("tcp", server)
		return err
	}); err != nil {
		return fmt.Errorf("listen in a pod: %w", err)
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // the program ends
			}
			go capture.Join(in, func() (net.Conn, error) { return net.Dial("tcp", server) })
		}
	}()
	return nil
}

func (w *world) startAPI() (err error) {
	if w.apiPod, err = w.newPod(20); err != nil {
		return err
	}
	if w.api, err = w.control.Run(control.Part{Program: apiProgram, Account: "tunnel-api", Within: w.apiPod.Do,
		Args: []string{"--tls-dir", w.tls, "--log-level=warn"}}); err != nil {
		return err
	}
	return w.probed(w.apiPod, "tunnel-api")
}

// probed waits until a program is ready, as a kubelet would.
func (w *world) probed(pod *podnet.Pod, name string) error {
	return wait.Until(w.ctx, control.Patience, name+" is ready", func() error {
		return sidecar.Healthy(w.ctx, "http://"+net.JoinHostPort(pod.IP.String(), "9090")+"/readyz")
	})
}

// startBaseline makes the Deployment with its Service, and a pod with the sidecar.
func (w *world) startBaseline() error {
	for text, o := range map[string]client.Object{deployment: &appsv1.Deployment{}, service: &corev1.Service{}} {
		if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
			return err
		}
		if err := w.admin.Create(w.ctx, o); err != nil {
			return err
		}
	}
	if err := w.control.ReplicaSet(w.ctx, cart); err != nil {
		return err
	}
	if err := w.own(); err != nil {
		return err
	}
	var err error
	if w.baseline, err = podnet.NewPod(1); err != nil {
		return err
	}
	w.pods = append(w.pods, w.baseline)
	pod := sidecar.Pod{Net: w.baseline, Workload: cart, Name: "cart-1", XDS: control.XDSPort, LogLevel: "warn"}
	if pod.Dir, err = os.MkdirTemp("/tmp", "mesh"); err != nil { // short: a socket's path has 108 bytes at most
		return err
	}
	if pod.Token, err = w.control.Pod(w.ctx, cart, pod.Name, w.baseline.IP.String()); err != nil {
		return err
	}
	if err := sidecar.Redirect(w.baseline, workloadPort); err != nil {
		return err
	}
	l, err := w.baseline.Listen(workloadPort)
	if err != nil {
		return err
	}
	w.app = answering(l, baselineSays)
	if w.sidecar, err = program.Start(w.logs, "sidecar", pod.Command(), w.baseline.Do); err != nil {
		return err
	}
	return wait.Until(w.ctx, control.Patience, "the sidecar is ready", func() error { return pod.Ready(w.ctx) })
}

// own makes the Deployment the owner of its ReplicaSet, which names an owner that does not exist:
// so it would be collected, and with it its pod; the pod's token is valid only while the pod
// exists.
func (w *world) own() error {
	d := &appsv1.Deployment{}
	if err := w.admin.Get(w.ctx, client.ObjectKey{Namespace: namespace, Name: cart.Name}, d); err != nil {
		return err
	}
	var sets appsv1.ReplicaSetList
	if err := w.admin.List(w.ctx, &sets, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range sets.Items {
		sets.Items[i].OwnerReferences[0].UID = d.UID
		if err := w.admin.Update(w.ctx, &sets.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// url is the baseline's.
func (w *world) url() string {
	return "http://" + net.JoinHostPort(w.baseline.IP.String(), fmt.Sprint(workloadPort)) + "/"
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop, labels: {app: cart}}
spec:
  replicas: 1
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "cart:1", ports: [{name: http, containerPort: 8080}]}]}
`

const service = `
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {selector: {app: cart}, ports: [{name: http, port: 80, targetPort: http}]}
`

// answering answers every request with the same words.
func answering(l net.Listener, says string) *http.Server {
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write([]byte(says)) // the client judges
	})}
	go func() { _ = s.Serve(l) }() // until Close
	return s
}

// close ends everything.
func (w *world) close() error {
	var wrong []error
	for _, s := range w.stations {
		s.process.Kill()
	}
	w.manager.stop()
	for _, p := range w.proxies {
		p.container.stop()
	}
	for _, p := range []*program.Program{w.api, w.collector, w.sidecar} {
		p.Kill()
	}
	if w.app != nil {
		wrong = append(wrong, w.app.Close())
	}
	for _, p := range w.pods {
		wrong = append(wrong, p.Close())
	}
	if w.control != nil {
		wrong = append(wrong, w.control.Close())
	}
	return errors.Join(wrong...)
}
