package browser_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/agent"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/trust"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/browser"
	"switchyard.dev/tests/link/deliveries"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
)

// patience is how long anything may take on a busy machine.
const patience = 3 * time.Minute

// The names of the page, of previews and of the cluster, and the namespace of its baseline.
const (
	pageHost      = "control.example.com"
	previewDomain = "preview.example.net"
	cluster       = "east"
	shop          = "shop"
)

// The listeners, in the network of the tests.
const (
	agentsAddress   = "127.0.0.1:7443"
	apiAddress      = "127.0.0.1:8443"
	proxyAddress    = "127.0.0.1:8444"
	previewsAddress = "127.0.0.1:8445"
	metricsAddress  = "127.0.0.1:9090"
)

// key is the API key of an administrator.
var key = "key-of-ada-" + strings.Repeat("a", 42)

// site is a control plane in a process of its own, with a cluster: an API server, the operator and an agent. The test
// acts for the controllers of Deployments and for the kubelet.
type site struct {
	*world.World
	dir    string
	log    *background.Output
	issuer string
	http   *http.Client
	// keys are those of the certificates, as in browser.Config.
	keys []string
	stop func() // kills the control plane
}

func newSite(t *testing.T) *site {
	t.Helper()
	if err := browser.Installed(); err != nil {
		t.Skip(err)
	}
	if !podnet.Inside() {
		t.Skip("the test needs root, for a network of its own")
	}
	s := &site{dir: t.TempDir(), log: &background.Output{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	logger := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s.World = world.New(t)
	life.Quiet(logger)
	s.files()
	s.fill()
	s.startIssuer()
	s.Must(deliveries.Prepare(t.Context(), s.Server))
	s.grant()
	s.baseline()
	background.Run(t, deliveries.Agent{
		Access: s.Config, Dir: s.dir, Address: agentsAddress, Token: deliveries.Token(cluster), Log: s.log, Change: func(a *agent.Settings) { a.Resolver = s },
	}.Run)
	s.startControlPlane() // it ends before the agent, which would wait for its streams
	l, err := life.Begin(t.Context(), wire.NewGate(wire.Faults{}, wire.NewLedger()), s.Config, memory.New(), manager.Config{Namespace: "signadot", Logger: logger})
	s.Must(err)
	t.Cleanup(l.Stop)
	background.Run(t, s.rollOut)
	return s
}

// grant lets users of the organisation read the operator's objects.
func (s *site) grant() {
	s.Helper()
	s.Make(&rbacv1.ClusterRole{}, `
metadata: {name: readers}
rules: [{apiGroups: [signadot.com], resources: ["*"], verbs: [get, list, watch]}]`)
	s.Make(&rbacv1.ClusterRoleBinding{}, `
metadata: {name: readers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "`+crdv1.ControlPlanePrefix+deliveries.Organisation+`"}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: readers}`)
}

// file returns the path of a file.
func (s *site) file(name string) string { return filepath.Join(s.dir, name) }

// files writes the certificates and the keys of the control plane.
func (s *site) files() {
	s.Helper()
	for dir, name := range map[string]string{s.dir: pageHost, s.file("previews"): "*." + previewDomain} {
		pair, err := selfsigned.New(name, net.IPv4(127, 0, 0, 1))
		s.Must(err)
		s.Must(pair.Write(dir))
		s.keys = append(s.keys, keyOf(s, pair.Cert))
	}
	s.Must(os.WriteFile(s.file("keys"), []byte("key "+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))+"\n"), 0o600))
	authority, err := os.ReadFile(s.file(trust.BundleFile))
	s.Must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	s.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}}
}

// keyOf returns the key of a certificate, as in browser.Config.
func keyOf(s *site, text []byte) string {
	s.Helper()
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	s.Must(err)
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// fill creates the organisation, the cluster and an administrator with the key.
func (s *site) fill() {
	s.Helper()
	in, err := deliveries.Open(s.Context(), s.file("store.db"), "")
	s.Must(err)
	s.Must(deliveries.Fill(s.Context(), in, cluster))
	ada := model.User{Org: deliveries.Organisation, ID: "u-ada", Email: "ada@example.com", Role: model.RoleAdmin}
	s.Must(in.PutUser(s.Context(), ada, model.Event{Org: ada.Org, ID: "user", Type: "test"}))
	s.Must(in.CreateAPIKey(s.Context(), model.APIKey{
		Org: ada.Org, ID: "key", Owner: model.Principal{Kind: model.KindUser, ID: ada.ID}, Masked: key[:6], Digest: model.DigestOf(key),
	}, model.Event{Org: ada.Org, ID: "key", Type: "test"}))
	s.Must(in.Close())
}

// startIssuer starts the issuer of logins, with administrators as users, and writes the settings of logins.
func (s *site) startIssuer() {
	s.Helper()
	s.Must(os.WriteFile(s.file("secret"), []byte("a-client-secret"), 0o600))
	cmd := exec.CommandContext(s.Context(), os.Getenv(issuerVariable), "-cert", s.file(trust.CertFile), "-key", s.file(trust.KeyFile),
		"-client", "switchyard", "-secret", "a-client-secret", "-redirect", "https://"+pageHost+"/login/callback", "-group", "ops")
	out, err := cmd.StdoutPipe()
	s.Must(err)
	s.Must(cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Kill() // it can have ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	s.Must(err)
	s.issuer = strings.TrimSpace(line)
	s.Must(os.WriteFile(s.file("login.yaml"), fmt.Appendf(nil, "issuer: %s\nclientID: switchyard\nclientSecretFile: %s\ncaFile: %s\nscopes: [openid, email, profile]\nmappings: [{value: ops, organisation: %s, role: admin}]\n",
		s.issuer, s.file("secret"), s.file(trust.CertFile), deliveries.Organisation), 0o600))
}

// startControlPlane starts the process of the control plane, and waits until it serves.
func (s *site) startControlPlane() {
	s.Helper()
	cmd, err := process.Command(roleControlPlane, "CONTROLPLANE_SOCKET="+s.file("admin.sock"), flagsVariable+"="+strings.Join([]string{
		"-database=" + s.file("store.db"), "-keys-file=" + s.file("keys"), "-tls-dir=" + s.dir, "-tls-name=127.0.0.1", "-url=https://" + pageHost,
		"-agents-address=" + agentsAddress, "-api-address=" + apiAddress, "-proxy-address=" + proxyAddress, "-metrics-address=" + metricsAddress,
		"-login=" + s.file("login.yaml"), "-organisation=",
		"-previews-address=" + previewsAddress, "-preview-domain=" + deliveries.Organisation + "=" + previewDomain, "-previews-tls-dir=" + s.file("previews"),
	}, "\n"))
	s.Must(err)
	in, err := cmd.StdinPipe()
	s.Must(err)
	cmd.Stderr = s.log
	s.Must(cmd.Start())
	s.stop = func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // it can have ended
		_ = cmd.Wait()         // it was killed
	}
	s.Cleanup(func() { s.stop() })
	s.until("the control plane serves", func() error {
		_, _, err := s.call(http.MethodGet, "sandboxes", "")
		return err
	})
}

// restart kills the control plane, and starts it again.
func (s *site) restart() {
	s.Helper()
	s.stop()
	s.startControlPlane()
}

// until waits for a condition.
func (s *site) until(what string, check func() error) {
	s.Helper()
	wait.Eventually(s.TB, patience, what, check)
}

// call sends a request to the API, and returns the answer.
func (s *site) call(method, path, body string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(s.Context(), method, "https://"+apiAddress+"/api/v2/orgs/"+deliveries.Organisation+"/"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Signadot-Api-Key", key)
	answer, err := s.http.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(all), err
}

// apply applies a sandbox that forks the baseline with an image.
func (s *site) apply(name, image, description string) {
	s.Helper()
	status, text, err := s.call(http.MethodPut, "sandboxes/"+name, fmt.Sprintf(`{"spec": {"cluster": %q, "description": %q, "labels": {"team": "cart"},
		"forks": [{"forkOf": {"kind": "Deployment", "namespace": %q, "name": "cart"}, "customizations": {"images": [{"image": %q}]}}],
		"defaultRouteGroup": {"endpoints": [{"name": "cart", "target": "http://cart.%s.svc:80"}]}}}`, cluster, description, shop, image, shop))
	if err != nil || status != http.StatusOK {
		s.Fatalf("apply sandbox %s: %d %s, %v", name, status, text, err)
	}
}

// LookupNetIP implements outbound.Resolver: it is the DNS of the cluster.
func (s *site) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	name, rest, _ := strings.Cut(host, ".")
	namespace, _, _ := strings.Cut(rest, ".")
	var service corev1.Service
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &service); err != nil {
		return nil, &net.DNSError{Err: err.Error(), Name: host, IsNotFound: true}
	}
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	return []netip.Addr{address}, err
}

// baseline creates a workload, and serves its Service, which answers with the routing key of each request.
func (s *site) baseline() {
	s.Helper()
	s.Namespaces(shop)
	s.Make(&appsv1.Deployment{}, `
metadata: {name: cart, namespace: shop}
spec:
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "cart:1", ports: [{containerPort: 80}]}]}`)
	service := &corev1.Service{}
	s.Make(service, `
metadata: {name: cart, namespace: shop}
spec: {selector: {app: cart}, ports: [{port: 80}]}`)
	s.Must(podnet.ServeAddress(net.ParseIP(service.Spec.ClusterIP)))
	l, err := net.Listen("tcp", service.Spec.ClusterIP+":80")
	s.Must(err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<!doctype html><html lang=en><title>Cart</title><link rel=icon href='data:,'><h1>Cart of %s</h1>", r.Header.Get("Baggage"))
	})}
	background.Run(s.TB, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// broken is part of the names of images with containers that end.
const broken = "broken"

// rollOut acts for the controller of Deployments and the kubelet until ctx ends: pods become ready, and those of a
// broken image end each time they are started.
func (s *site) rollOut(ctx context.Context) error {
	for wait.For(ctx, 50*time.Millisecond) == nil {
		var all appsv1.DeploymentList
		if err := s.Client.List(ctx, &all, client.InNamespace(shop)); err != nil {
			continue
		}
		for i := range all.Items {
			if d := &all.Items[i]; d.Status.ObservedGeneration != d.Generation && d.DeletionTimestamp == nil {
				_ = s.rollOutOne(ctx, d) // the next round tries again
			}
		}
	}
	return nil
}

func (s *site) rollOutOne(ctx context.Context, d *appsv1.Deployment) error {
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-1", Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
	if image := d.Spec.Template.Spec.Containers[0].Image; strings.Contains(image, broken) {
		d.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.UnavailableReplicas = 0, 0, n
		pod.Spec.ServiceAccountName = ""
		if err := s.Client.Create(ctx, pod); err != nil {
			return err
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s restarting"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}},
		}}}
		if err := s.Client.Status().Update(ctx, pod); err != nil {
			return err
		}
	} else if err := client.IgnoreNotFound(s.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))); err != nil {
		return err
	}
	return s.Client.Status().Update(ctx, d)
}
