package outages

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/link/replicas"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
)

// Programs of the link.
const (
	agentProgram  = "controlplane-link/cmd/agent"
	serverProgram = "controlplane-link/cmd/linkserver"
)

// Roles of this program in processes of their own.
const (
	roleStore   = "store"
	roleReplica = "replica"
)

// Isolate builds the programs and runs this program again in a separate network namespace, where it
// returns. It does not return in a process with a role.
func Isolate() error {
	roles := map[string]any{roleStore: &replicas.Store{}, roleReplica: replicas.Replica{}}
	if role, is := roles[process.Role()]; is {
		if err := process.Answer(role); err != nil {
			return err
		}
		os.Exit(0)
	}
	return control.IsolateServer(agentProgram, serverProgram)
}

const (
	patience = control.Patience
	// everyRequest is the pause between requests while one is awaited, and everyOther that in an interruption.
	everyRequest, everyOther = 50 * time.Millisecond, 250 * time.Millisecond
	// requestWithin bounds one request.
	requestWithin = 30 * time.Second
	accountName   = "agent"
	// backendPod is the number of the pod of a Service.
	backendPod  = 200
	backendPort = 8080
)

// world is the cluster of the agents: an API server, and a pod of a Service.
type world struct {
	ctx     context.Context
	dir     string
	control *control.Plane
	backend string // host:port
	pods    []*podnet.Pod
	lines   []*line
	servers []io.Closer
}

// newWorld begins a world with its files and logs in a folder.
func newWorld(ctx context.Context, dir string) (w *world, err error) {
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	w = &world{ctx: ctx, dir: dir}
	if w.control, err = control.StartServer(ctx, dir, logs); err != nil {
		return nil, err
	}
	if err := errors.Join(w.account(), w.startBackend()); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) close() (err error) {
	for _, s := range w.servers {
		err = errors.Join(err, s.Close())
	}
	for _, l := range w.lines {
		err = errors.Join(err, l.close())
	}
	for _, p := range w.pods {
		err = errors.Join(err, p.Close())
	}
	return errors.Join(err, w.control.Close())
}

// account creates the agent's service account with its rights.
func (w *world) account() error {
	rules, err := apiserver.AgentRules()
	if err != nil {
		return err
	}
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: control.System, Name: accountName}}
	meta := metav1.ObjectMeta{Name: accountName}
	inOperator := metav1.ObjectMeta{Namespace: control.System, Name: accountName}
	return w.control.Server().Create(w.ctx,
		apiserver.Account(control.System, accountName),
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: slices.Concat(rules["cluster"], rules["namespaces"])},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: accountName}, Subjects: subject},
		&rbacv1.Role{ObjectMeta: inOperator, Rules: rules["operator"]},
		&rbacv1.RoleBinding{ObjectMeta: inOperator, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: accountName}, Subjects: subject})
}

// newPod makes a network namespace.
func (w *world) newPod(number byte) (*podnet.Pod, error) {
	pod, err := podnet.NewPod(number)
	if err == nil {
		w.pods = append(w.pods, pod)
	}
	return pod, err
}

// startBackend begins a Service with one pod.
func (w *world) startBackend() error {
	pod, err := w.newPod(backendPod)
	if err != nil {
		return err
	}
	l, err := pod.Listen(backendPort)
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, backendAnswer) })}
	go func() { _ = server.Serve(l) }()
	w.servers = append(w.servers, server)
	w.backend = net.JoinHostPort(pod.IP.String(), fmt.Sprint(backendPort))
	meta := metav1.ObjectMeta{Namespace: control.Namespace, Name: "cart"}
	slice := meta
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: meta.Name}
	return w.control.Server().Create(w.ctx,
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: backendPort}}}},
		&discoveryv1.EndpointSlice{ObjectMeta: slice, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{pod.IP.String()}}}})
}

const backendAnswer = "the Service answers\n"

// user sends requests to the Service through a link server.
type user struct {
	client  *http.Client
	url     string
	host    string
	key     string
	cluster string
}

// newUser returns the user of a key at a server's address for users.
func (w *world) newUser(address, key, cluster string, authority []byte) *user {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	through := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: serverName}, MaxIdleConnsPerHost: 64}
	return &user{&http.Client{Transport: through, Timeout: requestWithin}, "https://" + address, w.backend, key, cluster}
}

// get sends a request; nil: the Service has answered.
func (u *user) get(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url, nil)
	if err != nil {
		return err
	}
	r.Host = u.host
	r.Header.Set("Signadot-Api-Key", u.key)
	r.Header.Set("Signadot-Cluster", u.cluster)
	answer, err := u.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || string(text) != backendAnswer) {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}

// served waits until a request is answered, which was sent after the call, and returns how long that took.
func (u *user) served(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	first, last := make(chan time.Duration, 1), make(chan error, 1)
	ticker := time.NewTicker(everyRequest)
	defer ticker.Stop()
	for {
		go func() {
			err := u.get(ctx)
			if err == nil {
				select {
				case first <- time.Since(began):
				default: // another was the first
				}
				return
			}
			select {
			case last <- err:
			default: // one of them is sufficient
			}
		}()
		select {
		case took := <-first:
			return took, nil
		case <-ticker.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("no request was answered in %s: %w", patience, <-last)
		}
	}
}

// steadily sends three requests, and returns the error of the first that is not answered.
func (u *user) steadily(ctx context.Context) error {
	for range 3 {
		if err := u.get(ctx); err != nil {
			return err
		}
	}
	return nil
}
