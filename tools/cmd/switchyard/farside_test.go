package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/relay"
)

// farSide is the cluster's side of tunnels: a tunnel proxy that believes one token, behind the API
// server and a kubelet, a tunnel-api behind that, and a server in the cluster.
type farSide struct {
	tunnelv1.UnimplementedTunnelAPIServer
	*world.World
	namespace string // of the operator
	token     string
	authority *trusttest.Authority
	address   string // of the proxy

	mu        sync.Mutex
	sandboxes []*tunnelv1.LocalSandbox
	sessions  []*carrier.Session
	places    map[string]string
}

// newFarSide makes one in a namespace of its own.
func newFarSide(t *testing.T, namespace string) *farSide {
	t.Helper()
	f := &farSide{World: world.Shared(t), namespace: namespace, authority: trusttest.New(t, "switchyard"), places: map[string]string{}}
	f.Namespaces(namespace)
	f.Accounts(namespace, "developer")
	f.token = f.Token(namespace, "developer", "", nil)
	f.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "signadot-authority"},
		Data: map[string]string{trust.BundleFile: string(f.authority.Bundle())}})
	f.address = f.listenProxy(t)
	f.listenAPI(t)
	f.proxyPod(kubelet(t, f.address))
	f.Grant(f.user(), namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"signadot-authority"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}})
	f.Grant(f.user(), "", rbacv1.PolicyRule{APIGroups: []string{"signadot.com"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	return f
}

// believes returns the token that is taken.
func (f *farSide) believes() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token
}

// logIn has another token be taken, which it returns, and ends all sessions.
func (f *farSide) logIn() string {
	token := f.Token(f.namespace, "developer", "", nil)
	f.mu.Lock()
	f.token = token
	f.mu.Unlock()
	f.kill()
	return token
}

func (f *farSide) user() string { return "system:serviceaccount:" + f.namespace + ":developer" }

// proxyPod makes the proxy's pod, on a node whose kubelet listens on a port.
func (f *farSide) proxyPod(port int32) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	f.Create(node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	f.Must(f.Client.Status().Update(context.Background(), node))
	f.RunPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "tunnel-proxy-0", Labels: map[string]string{"app": "tunnel-proxy"}},
		Spec: corev1.PodSpec{NodeName: f.namespace, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "main", Image: "tunnel-proxy"}}},
	}, corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}})
}

func (f *farSide) certificate(t *testing.T, service string) *tls.Config {
	t.Helper()
	leaf := f.authority.Leaf(t, service+"."+f.namespace+".svc")
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	must(t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}
}

func (f *farSide) listenProxy(t *testing.T) string {
	config := f.certificate(t, "tunnel-proxy")
	config.NextProtos = nil
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	must(t, err)
	t.Cleanup(func() { l.Close(); f.kill() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return l.Addr().String()
}

func (f *farSide) serve(c net.Conn) {
	s, _, err := carrier.Serve(context.Background(), c, func(_ context.Context, h *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused) {
		if h.GetToken() != f.believes() {
			return nil, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAUTHENTICATED, Message: "the token is not known"}
		}
		return &tunnelv1.Welcome{User: f.user(), Proxy: "tunnel-proxy-0"}, nil
	})
	if err != nil {
		return
	}
	f.mu.Lock()
	f.sessions = append(f.sessions, s)
	f.mu.Unlock()
	go func() {
		for {
			m, err := s.Receive(context.Background())
			if err != nil {
				return
			}
			answer := &tunnelv1.Declared{Revision: m.GetDeclare().GetRevision()}
			for _, t := range m.GetDeclare().GetTunnels() {
				answer.Tunnels = append(answer.Tunnels, &tunnelv1.TunnelState{Namespace: t.GetNamespace(), Name: t.GetName(), Open: true})
			}
			_ = s.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Declared{Declared: answer}})
		}
	}()
	for {
		in, err := s.Accept(context.Background())
		if err != nil {
			return
		}
		go f.reach(in)
	}
}

func (f *farSide) reach(in *carrier.Incoming) {
	f.mu.Lock()
	at := f.places[in.Open.GetAddress().GetHost()]
	f.mu.Unlock()
	there, err := net.Dial("tcp", at)
	if err != nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_NOT_FOUND, Message: "there is no such name"})
		return
	}
	c, err := in.Accept()
	if err == nil {
		relay.Pipe(relay.Of(c), relay.Of(there))
	}
}

// kill ends all sessions.
func (f *farSide) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		s.Close(nil)
	}
	f.sessions = nil
}

// asks sends a request to the port 80 of an external workload, as the proxy does.
func (f *farSide) asks(name string) (string, error) {
	f.mu.Lock()
	var s *carrier.Session
	if len(f.sessions) > 0 {
		s = f.sessions[len(f.sessions)-1]
	}
	f.mu.Unlock()
	if s == nil {
		return "", io.ErrUnexpectedEOF
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := s.Open(ctx, &tunnelv1.Open{To: &tunnelv1.Open_Inbound{Inbound: &tunnelv1.Inbound{Namespace: "local-shop", Name: name, BaselinePort: 80}}})
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
	got, err := io.ReadAll(c)
	return string(got), err
}

func (f *farSide) listenAPI(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(f.certificate(t, "tunnel-api"))))
	tunnelv1.RegisterTunnelAPIServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	f.places["tunnel-api."+f.namespace+".svc"] = l.Addr().String()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "cluster: "+r.Header.Get("baggage")+" "+r.Header.Get("X-Key"))
	}))
	t.Cleanup(web.Close)
	f.places["cart.local-shop"] = web.Listener.Addr().String()
}

// GetOperatorInfo implements tunnelv1.TunnelAPIServer.
func (f *farSide) GetOperatorInfo(context.Context, *tunnelv1.GetOperatorInfoRequest) (*tunnelv1.GetOperatorInfoResponse, error) {
	return &tunnelv1.GetOperatorInfoResponse{Version: "test", ClusterDomain: "cluster.local"}, nil
}

// WatchLocalSandboxes implements tunnelv1.TunnelAPIServer.
func (f *farSide) WatchLocalSandboxes(_ *tunnelv1.WatchLocalSandboxesRequest, stream grpc.ServerStreamingServer[tunnelv1.WatchLocalSandboxesResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+f.believes() {
		return status.Error(codes.Unauthenticated, "the token is not known")
	}
	f.mu.Lock()
	err := stream.Send(&tunnelv1.WatchLocalSandboxesResponse{Sandboxes: f.sandboxes})
	f.mu.Unlock()
	if err == nil {
		<-stream.Context().Done()
	}
	return err
}

// IssueSSHCertificate implements tunnelv1.TunnelAPIServer.
func (f *farSide) IssueSSHCertificate(_ context.Context, r *tunnelv1.IssueSSHCertificateRequest) (*tunnelv1.IssueSSHCertificateResponse, error) {
	return &tunnelv1.IssueSSHCertificateResponse{Certificate: "certificate of " + r.GetPublicKey(), KnownHosts: "@cert-authority * key",
		Expires: timestamppb.New(time.Now().Add(10 * time.Minute))}, nil
}

// IssueSOCKSCredential implements tunnelv1.TunnelAPIServer.
func (f *farSide) IssueSOCKSCredential(context.Context, *tunnelv1.IssueSOCKSCredentialRequest) (*tunnelv1.IssueSOCKSCredentialResponse, error) {
	return &tunnelv1.IssueSOCKSCredentialResponse{User: "ada", Password: "v1.secret", Expires: timestamppb.New(time.Now().Add(10 * time.Minute))}, nil
}

// bench is somebody's workstation.
type bench struct {
	*testing.T
	f    *farSide
	env  map[string]string
	args []string
}

// bench returns the workstation of the one whom the far side believes.
func (f *farSide) bench(t *testing.T) *bench {
	return &bench{T: t, f: f, env: map[string]string{"XDG_RUNTIME_DIR": t.TempDir()},
		args: []string{"--kubeconfig", as(t, "", f.token), "--namespace-of-operator", f.namespace}}
}

// does runs a command, with what is after -- at its end, until it ends or ctx does.
func (b *bench) does(ctx context.Context, args ...string) (code exit.Code, out, errs string) {
	var o, e bytes.Buffer
	config := command.Config{Name: "switchyard"}
	config.In, config.Out, config.Err = strings.NewReader(""), &o, &e
	config.Getenv = func(name string) string { return b.env[name] }
	all := append([]string{args[0]}, b.args...)
	code = switchyard.Main(ctx, config, append(all, args[1:]...))
	return code, o.String(), e.String()
}

// begins runs a command until the test or the returned function ends it, which returns what it
// has said.
func (b *bench) begins(args ...string) (end func() (exit.Code, string)) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	type result struct {
		code exit.Code
		text string
	}
	done := make(chan result, 1)
	go func() {
		code, out, errs := b.does(ctx, args...)
		done <- result{code, out + errs}
	}()
	var once sync.Once
	var got result
	end = func() (exit.Code, string) {
		once.Do(func() { cancel(); got = <-done })
		return got.code, got.text
	}
	b.Cleanup(func() { end() })
	wait.Holds(b, strings.Join(args, " ")+" is connected", func() bool {
		select {
		case got := <-done:
			b.Fatalf("%s ended: %d\n%s", strings.Join(args, " "), got.code, got.text)
		default:
		}
		code, _, _ := b.does(b.Context(), "connect", "status")
		return code == exit.OK
	})
	return end
}

// file writes a file, and returns its path.
func (b *bench) file(name, text string) string {
	path := filepath.Join(b.TempDir(), name)
	must(b.T, writeFile(path, text))
	return path
}
