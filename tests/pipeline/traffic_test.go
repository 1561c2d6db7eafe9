package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/authority"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	forktraffic "switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/sidecars/traffic/attach"
	trafficmanager "switchyard.dev/sidecars/traffic/manager"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tools/traffic"
)

// roleTraffic is the process of the container of a fork that records requests.
const roleTraffic = "traffic"

// The environment of that process.
const (
	envManager, envToken, envState, envRoots = "TRAFFIC_MANAGER", "TRAFFIC_TOKEN", "TRAFFIC_STATE", "TRAFFIC_MANAGER_CA"
)

// keepTraffic is the container's program.
func keepTraffic() error {
	roots, err := attach.Roots("", os.Getenv(envRoots))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return attach.Run(ctx, attach.Config{
		Manager: os.Getenv(envManager), Roots: roots, TokenFile: os.Getenv(envToken), StateFile: os.Getenv(envState),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// forked is a fork in a pod of its own, as a kubelet and kube-proxy would run it.
type forked struct {
	*path
	net     *podnet.Pod
	object  *corev1.Pod
	manager string // host:port of traffic-manager
	token   string // the file with the controller manager's token for it
}

// newRecordingWorld is newWorld with captures; token is the file with the controller manager's token for traffic-manager.
func newRecordingWorld(t *testing.T) (w *path, token string) {
	t.Helper()
	token = filepath.Join(t.TempDir(), "token")
	return newWorldWith(t, authority.Policy{}, func(c *manager.Config) {
		c.Traffic = manager.Traffic{Manager: true, TokenFile: token, Container: forktraffic.Settings{Image: "traffic-sidecar:1"}}
	}), token
}

func TestRequestsOfAForkAreRecorded(t *testing.T) {
	w, token := newRecordingWorld(t)
	sandbox := w.sandbox("recorded")
	f := w.forkInPod("recorded", token)
	w.Eventually("Ready", func() error { return isReady(w, sandbox) })
	before := f.deployment()

	load := f.load("recorded") // on one connection, from before the capture until after its end
	load.awaits(t, 20)
	capture := &crdv1.TrafficCapture{}
	w.Make(capture, `
metadata: {name: record, namespace: shop}
spec: {sandbox: recorded, lease: {renewTime: "2026-11-30T14:00:00.000000Z"}}`)
	w.Condition(capture, crdv1.ConditionReady, "True", "Recording")
	first := load.next()
	load.awaits(t, 50)

	w.Eventually("the sandbox is applied again, as CI does", func() error {
		if err := w.Look(sandbox); err != nil {
			return err
		}
		sandbox.Annotations = map[string]string{crdv1.AnnotationUpdatedAt: time.Now().UTC().Format(time.RFC3339)}
		return w.Client.Update(w.Context(), sandbox)
	})
	load.awaits(t, 50)
	w.Must(w.Look(capture))
	if !crdv1.IsTrue(capture.Status.Conditions, crdv1.ConditionReady, capture.Generation) {
		t.Errorf("a sandbox that is applied again ends its capture: %+v", capture.Status.Conditions)
	}
	last := load.next()
	load.awaits(t, 10)
	recorded := f.recorded(func(ids []int) error { return holds(ids, first, last) })
	t.Logf("requests %d to %d of one connection were recorded, of %d", first, last, len(recorded))

	f.endRecording(t, capture, load)
	if now := f.deployment(); now.Generation != before.Generation || now.UID != before.UID {
		t.Errorf("the fork was changed: generation %d, then %d", before.Generation, now.Generation)
	}
	w.Eventually("the second Service is deleted", func() error {
		if n := len(f.services()); n != 1 {
			return fmt.Errorf("the fork has %d Services", n)
		}
		return nil
	})
}

// endRecording deletes a capture, and ends a load later. It returns the number of a request after the end, and fails if that or a
// later one was recorded.
func (f *forked) endRecording(t *testing.T, capture *crdv1.TrafficCapture, load *steady) (after int) {
	t.Helper()
	f.Must(f.Client.Delete(f.Context(), capture))
	f.Gone(capture)
	load.awaits(t, 50)
	after = load.next()
	load.end(t)
	if ids := f.recorded(func([]int) error { return nil }); len(ids) > 0 && slices.Max(ids) >= after {
		t.Errorf("request %d was recorded after the capture had ended", slices.Max(ids))
	}
	return after
}

// holds returns which request from first to last was not recorded.
func holds(ids []int, first, last int) error {
	for id := first; id <= last; id++ {
		if !slices.Contains(ids, id) {
			return fmt.Errorf("request %d (of %d to %d) was not recorded", id, first, last)
		}
	}
	return nil
}

// forkInPod runs the pod of the fork of a sandbox, with its application and the container that records, and traffic-manager.
func (w *path) forkInPod(sandbox, token string) *forked {
	w.Helper()
	f := &forked{path: w, token: token}
	f.runManager()
	listener, err := f.net.Listen(workloadPort)
	w.Must(err)
	w.application(listener, traffic.Fork)
	f.kubelet(w.forkedWorkload(sandbox))
	background.Run(w, f.kubeProxy)
	w.Available(f.deployment())
	return f
}

// runManager runs traffic-manager where pods reach it, beside a second pod of the test, and makes the objects by which the
// controller manager finds it. It returns its pod.
func (f *forked) runManager() *corev1.Pod {
	f.Helper()
	var err error
	f.net, err = podnet.NewPod(2)
	f.Must(err)
	f.Cleanup(func() {
		if err := f.net.Close(); err != nil {
			f.Error(err)
		}
	})
	host := f.net.Host.String()
	f.manager = net.JoinHostPort(host, strconv.Itoa(trafficcapture.ManagerPort))
	dir := filepath.Join(f.TempDir(), "traffic-tls")
	f.Eventually("the certificate of traffic-manager is mounted", func() error { return f.mount(f.Context(), "traffic-tls", dir) })
	folder, err := trust.Open(trust.Config{Dir: dir, Name: "traffic-manager.signadot.svc", Logger: f.logger})
	f.Must(err)
	main, err := trafficmanager.New(trafficmanager.Config{
		REST: f.As(""), TLS: folder, Readers: []string{"signadot:signadot-controller-manager"},
		Store: f.TempDir(), StoreBytes: 64 << 20, Replica: "traffic-manager-0", Address: f.manager, HealthAddress: "127.0.0.1:0", Logger: f.logger,
	})
	f.Must(err)
	background.Run(f, main.Run)
	account := apiserver.Account("signadot", "signadot-controller-manager")
	f.Create(account)
	f.Must(os.WriteFile(f.token, []byte(f.Token(account.Namespace, account.Name, forktraffic.Audience, nil)), 0o600))
	f.Create(apiserver.Account("signadot", trafficmanager.DeploymentName))
	set, err := apiserver.ReplicaSet(f.Context(), f.Kube, "signadot", "Deployment", trafficmanager.DeploymentName)
	f.Must(err)
	replica, err := apiserver.Pod(f.Context(), f.Kube, set, "traffic-manager-0", trafficmanager.DeploymentName)
	f.Must(err)
	replica.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: host, PodIPs: []corev1.PodIP{{IP: host}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true}}}
	f.Must(f.Client.Status().Update(f.Context(), replica))
	return replica
}

// kubelet makes the pod of a fork's Deployment, and runs its container that records requests.
func (f *forked) kubelet(w *crdv1.ForkedWorkload) {
	f.Helper()
	d := &appsv1.Deployment{}
	f.get(d, w.Status.Fork.ObjectRef.Name)
	set, err := apiserver.ReplicaSet(f.Context(), f.Kube, namespace, "Deployment", d.Name)
	f.Must(err)
	f.object = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Name + "-a", Namespace: namespace, Labels: d.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: d.Spec.Template.Spec,
	}
	f.object.Spec.ServiceAccountName = "default"
	f.Create(f.object)
	container := f.object.Spec.InitContainers[0]
	if container.Name != forktraffic.ContainerName {
		f.Fatalf("the fork's first container is %s", container.Name)
	}
	dir := f.TempDir()
	token := filepath.Join(dir, "token")
	f.Must(os.WriteFile(token, []byte(f.Token(namespace, "default", forktraffic.Audience, f.object)), 0o600))
	cmd, err := process.Command(roleTraffic, envManager+"="+f.manager, envToken+"="+token, envState+"="+filepath.Join(dir, "state"),
		envRoots+"="+container.Env[0].Value)
	f.Must(err)
	cmd.Stdout, cmd.Stderr = f.Output(), f.Output()
	recorder, err := program.Start("", "the container that records", cmd, f.net.Do)
	f.Must(err)
	f.Cleanup(func() {
		if err := recorder.Terminate(patience); err != nil {
			f.Errorf("the container that records: %v", err)
		}
	})
	ip := f.net.IP.String()
	f.object.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true}}, InitContainerStatuses: []corev1.ContainerStatus{{Name: container.Name, Ready: true}}}
	f.Must(f.Client.Status().Update(f.Context(), f.object))
}

func (f *forked) deployment() *appsv1.Deployment {
	f.Helper()
	d := &appsv1.Deployment{}
	f.get(d, strings.TrimSuffix(f.object.Name, "-a"))
	return d
}

// services returns the Services of the fork.
func (f *forked) services() []corev1.Service {
	var all corev1.ServiceList
	if err := f.Client.List(f.Context(), &all, client.InNamespace(namespace), client.HasLabels{crdv1.LabelForkedWorkload}); err != nil && f.Context().Err() == nil {
		f.Error(err)
	}
	return all.Items
}

// kubeProxy sends connections to the cluster addresses of the fork's Services to the port of the pod that is their target when
// they are opened.
func (f *forked) kubeProxy(ctx context.Context) error {
	served := map[string]net.Listener{}
	defer func() {
		for _, l := range served {
			_ = l.Close()
		}
	}()
	for ctx.Err() == nil {
		for _, s := range f.services() {
			if served[s.Name] != nil || s.Spec.ClusterIP == "" {
				continue
			}
			ip := net.ParseIP(s.Spec.ClusterIP)
			if err := podnet.ServeAddress(ip); err != nil {
				return err
			}
			l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), fmt.Sprint(s.Spec.Ports[0].Port)))
			if err != nil {
				return err
			}
			served[s.Name] = l
			go f.forward(l, client.ObjectKeyFromObject(&s))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// forward accepts connections for a Service.
func (f *forked) forward(l net.Listener, service client.ObjectKey) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			s := &corev1.Service{}
			if err := f.Client.Get(f.Context(), service, s); err != nil {
				return
			}
			port := s.Spec.Ports[0].TargetPort
			if port.Type == intstr.String {
				port = intstr.FromInt32(workloadPort)
			}
			out, err := net.Dial("tcp", net.JoinHostPort(f.net.IP.String(), port.String()))
			if err != nil {
				return
			}
			defer out.Close()
			go func() {
				_, _ = io.Copy(out, in)
				_ = out.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(in, out)
		}()
	}
}

// recorded waits until the numbers of the requests that traffic-manager has stored are right, and returns them.
func (f *forked) recorded(right func(ids []int) error) (ids []int) {
	f.Helper()
	conn, err := trust.Dial(f.manager, "traffic-manager.signadot.svc", f.tls.roots, door.Show(f.token))
	f.Must(err)
	defer conn.Close()
	f.Eventually("requests are recorded", func() error {
		ctx, cancel := context.WithTimeout(f.Context(), patience)
		defer cancel()
		stream, err := trafficv1.NewReadersClient(conn).Read(ctx, &trafficv1.ReadRequest{CaptureNamespace: namespace, Capture: "record"})
		if err != nil {
			return err
		}
		for ids = nil; ; {
			e, err := stream.Recv()
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if target := e.GetExchange().GetRequest().GetTarget(); strings.Contains(target, "id=") {
				id, err := strconv.Atoi(target[strings.Index(target, "id=")+3:])
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			if e.GetCurrent() || err != nil {
				return right(ids)
			}
		}
	})
	return ids
}

// steady sends requests one after the other on one connection.
type steady struct {
	mu     sync.Mutex
	number int // of the next one
	failed []string
	stop   context.CancelFunc
	done   chan struct{}
}

// load begins to send requests with the key, which the fork is to serve.
func (f *forked) load(key string) *steady { return f.loadServedBy(key, traffic.Fork) }

// loadServedBy begins to send requests with the key, which this side is to serve.
func (f *forked) loadServedBy(key string, side traffic.Side) *steady {
	ctx, stop := context.WithCancel(f.Context())
	l := &steady{number: 1, stop: stop, done: make(chan struct{})}
	dialled := 0
	sender := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled++
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}}
	go func() {
		defer close(l.done)
		defer sender.CloseIdleConnections()
		for ctx.Err() == nil {
			l.mu.Lock()
			id := l.number
			l.number++
			l.mu.Unlock()
			a, err := traffic.Get(context.WithoutCancel(ctx), sender, f.sender.URL+"?id="+strconv.Itoa(id), [2]string{"Baggage", "sd-routing-key=" + key})
			if err != nil || a.Status != http.StatusOK || string(a.Body) != string(side) {
				l.mu.Lock()
				l.failed = append(l.failed, fmt.Sprintf("request %d: %v, status %d: %s", id, err, a.Status, a.Body))
				l.mu.Unlock()
			}
			time.Sleep(5 * time.Millisecond)
		}
		if dialled != 1 {
			l.failed = append(l.failed, fmt.Sprintf("the client opened %d connections", dialled))
		}
	}()
	return l
}

// next returns the number of a request that has not begun.
func (l *steady) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number
}

// awaits waits for some more requests.
func (l *steady) awaits(t *testing.T, more int) {
	t.Helper()
	for until := l.next() + more; l.next() < until; time.Sleep(5 * time.Millisecond) {
		if t.Context().Err() != nil {
			t.Fatal("the test has ended")
		}
	}
}

// end ends it, and fails the test if a request has failed.
func (l *steady) end(t *testing.T) {
	t.Helper()
	l.stop()
	<-l.done
	if len(l.failed) > 0 {
		t.Errorf("%d requests failed, the first ones: %s", len(l.failed), strings.Join(l.failed[:min(3, len(l.failed))], "\n"))
	}
}
