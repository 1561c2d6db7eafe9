package api_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/api"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/credential"
	"switchyard.dev/tunnels/keys"
	"switchyard.dev/tunnels/sshcert"
)

func TestMain(m *testing.M) { world.Main(m) }

// site is a tunnel-api beside a real API server, with the rights that the chart gives it.
type site struct {
	folder *trust.Folder
	*world.World
	ns     string
	keys   keys.Signing
	client tunnelv1.TunnelAPIClient
	conn   *grpc.ClientConn
	logs   *background.Output
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func newSite(t *testing.T, prefix string) *site {
	t.Helper()
	s := &site{World: world.Shared(t), logs: &background.Output{}}
	s.ns = s.NewNamespace(prefix)
	user := "tunnel-api-" + s.ns
	rules := []rbacv1.PolicyRule{rule("", "services", "list", "watch"), rule("authentication.k8s.io", "tokenreviews", "create"), rule("authorization.k8s.io", "subjectaccessreviews", "create")}
	for _, kind := range []string{"signadotsandboxes", "signadotexternalworkloads", "resources"} {
		rules = append(rules, rule(crdv1.Group, kind, "list", "watch"))
	}
	s.Grant(user, "", append(rules, rbacv1.PolicyRule{NonResourceURLs: []string{"/.well-known/openid-configuration", "/openid/v1/jwks"}, Verbs: []string{"get"}})...)
	s.Grant(user, s.ns, rule("discovery.k8s.io", "endpointslices", "list", "watch"),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{controlkeys.ConfigMap}, Verbs: []string{"get"}})
	s.serve(t, s.As(user))
	return s
}

func (s *site) serve(t *testing.T, as *rest.Config) {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(as)
	logger := slog.New(slog.NewTextHandler(s.logs, nil))
	asks, err := access.New(access.Config{Tokens: kube.AuthenticationV1().TokenReviews(), Rights: kube.AuthorizationV1().SubjectAccessReviews(),
		Credentials: controlkeys.New(kube.CoreV1().ConfigMaps(s.ns), nil), Issuer: tokens.NewIssuer(kube.Discovery().RESTClient(), nil), Logger: logger})
	s.Must(err)
	data, err := keys.New()
	s.Must(err)
	s.keys, err = keys.ParseSigning(data)
	s.Must(err)
	authority, dir, cidrs := trusttest.New(t, "ours"), t.TempDir(), filepath.Join(t.TempDir(), "cidr.yaml")
	authority.Write(t, dir, authority.Leaf(t, api.Name))
	folder, err := trust.Open(trust.Config{Dir: dir, Name: api.Name})
	s.Must(err)
	s.folder = folder
	s.Must(os.WriteFile(cidrs, []byte("version: 1\noutboundIPs: [{name: db, cidr: 10.9.0.0/16, exclude: true}]"), 0o600))
	main, err := api.New(api.Config{
		REST: as, Namespace: s.ns, Access: asks, Keys: s.keys, TLS: folder, AcceptPlain: true, CIDRs: cidrs, AskAgain: 200 * time.Millisecond,
		Operator: &tunnelv1.GetOperatorInfoResponse{Version: "v9", GitCommit: "abc", BuildDate: "2026-11-27T00:00:00Z"}, Address: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0", Logger: logger,
	})
	s.Must(err)
	background.Run(t, main.Run)
	s.conn, err = trust.Dial(main.Address(), api.Name, folder.Roots())
	s.Must(err)
	t.Cleanup(func() { _ = s.conn.Close() })
	s.client = tunnelv1.NewTunnelAPIClient(s.conn)
	s.Eventually("it serves", func() error {
		h, err := healthv1.NewHealthClient(s.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		if err == nil && h.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			err = fmt.Errorf("its health is %s", h.GetStatus())
		}
		return err
	})
}

// account makes a service account with rights, and returns the context of its calls.
func (s *site) account(name string, everywhere ...rbacv1.PolicyRule) context.Context {
	s.Helper()
	s.Accounts(s.ns, name)
	if len(everywhere) > 0 {
		s.Grant(s.user(name), "", everywhere...)
	}
	return metadata.AppendToOutgoingContext(s.Context(), "authorization", "Bearer "+s.Token(s.ns, name, "", nil))
}

func (s *site) user(name string) string { return "system:serviceaccount:" + s.ns + ":" + name }

func (s *site) service(namespace, name string) *corev1.Service {
	s.Helper()
	o := &corev1.Service{}
	s.Make(o, "{metadata: {namespace: "+namespace+", name: "+name+"}, spec: {ports: [{name: http, port: 80}]}}")
	return o
}

// wants checks the code of an error, and its text.
func wants(t *testing.T, what string, err error, code codes.Code, says string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%s: %v, not %s with %q", what, err, code, says)
	}
}

func TestOperatorInfoNeedsNoToken(t *testing.T) {
	s := newSite(t, "info")
	info, err := s.client.GetOperatorInfo(t.Context(), &tunnelv1.GetOperatorInfoRequest{})
	if err != nil || info.Version != "v9" || info.GitCommit != "abc" || info.BuildDate == "" || info.ClusterDomain != "cluster.local" || len(info.Cidrs) != 1 || info.Cidrs[0].Cidr != "10.9.0.0/16" || !info.Cidrs[0].Exclude {
		t.Errorf("%v, %v", info, err)
	}
	_, err = s.client.IssueSOCKSCredential(t.Context(), &tunnelv1.IssueSOCKSCredentialRequest{})
	wants(t, "without a token", err, codes.Unauthenticated, "show a token")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer junk")
	_, err = s.client.IssueSOCKSCredential(ctx, &tunnelv1.IssueSOCKSCredentialRequest{})
	wants(t, "with junk", err, codes.Unauthenticated, "does not accept")
}

// next receives answers until one is marked as synced, and returns their content together.
func next(t *testing.T, stream grpc.ServerStreamingClient[tunnelv1.WatchServicesResponse]) (changed, gone []string, position string) {
	t.Helper()
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range m.Changed {
			changed = append(changed, o.Namespace+"/"+o.Name)
		}
		for _, o := range m.Gone {
			gone = append(gone, o.Namespace+"/"+o.Name)
		}
		if m.Synced {
			return changed, gone, m.Position
		}
	}
}

// end receives answers until the stream ends, and returns its error.
func end(stream grpc.ServerStreamingClient[tunnelv1.WatchServicesResponse]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

func TestServicesAreThoseOfNamespacesTheCallerMayList(t *testing.T) {
	s := newSite(t, "services")
	other := s.NewNamespace("services")
	s.service(s.ns, "one")
	s.service(other, "hidden")
	ada := s.account("ada")
	_, err := must(s.client.WatchServices(ada, &tunnelv1.WatchServicesRequest{})).Recv()
	wants(t, "without rights", err, codes.PermissionDenied, "may not list services")
	s.Grant(s.user("ada"), s.ns, rule("", "services", "list"))
	ctx, cancel := context.WithCancel(ada)
	defer cancel()
	var stream grpc.ServerStreamingClient[tunnelv1.WatchServicesResponse]
	var changed, gone []string
	var position string
	s.Eventually("the right counts", func() error {
		time.Sleep(500 * time.Millisecond) // a caller may not begin as many as it likes
		stream = must(s.client.WatchServices(ctx, &tunnelv1.WatchServicesRequest{}))
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if len(m.Changed) != 1 || m.Changed[0].Name != "one" || !m.Synced || len(m.Changed[0].Addresses) == 0 {
			t.Fatalf("at first: %v", m)
		}
		position = m.Position
		return nil
	})
	s.service(other, "hidden-too")
	s.service(s.ns, "two")
	for len(changed)+len(gone) == 0 { // a change in another namespace is an answer with another position alone
		changed, gone, position = next(t, stream)
	}
	if strings.Join(changed, " ") != s.ns+"/two" || len(gone) > 0 {
		t.Errorf("then %v, and gone %v", changed, gone)
	}
	cancel()
	one := &corev1.Service{}
	one.Namespace, one.Name = s.ns, "one"
	s.Remove(one)
	again, end := context.WithCancel(ada)
	defer end()
	missed := must(s.client.WatchServices(again, &tunnelv1.WatchServicesRequest{Position: position}))
	for gone = nil; !strings.Contains(strings.Join(gone, " "), s.ns+"/one"); {
		changed, more, _ := next(t, missed)
		if gone = append(gone, more...); strings.Contains(strings.Join(append(changed, gone...), " "), other) {
			t.Errorf("missed changes: %v, deleted %v", changed, gone)
		}
	}
	for what, p := range map[string]string{"of nobody": "junk", "of another process": "0011223344556677.4.all", "of other rights": strings.Join(strings.Split(position, ".")[:2], ".") + ".all"} {
		_, err := must(s.client.WatchServices(again, &tunnelv1.WatchServicesRequest{Position: p})).Recv()
		wants(t, "a position "+what, err, codes.OutOfRange, "begin again")
	}
	_, err = must(s.client.WatchServices(again, &tunnelv1.WatchServicesRequest{Namespaces: []string{s.ns, other}})).Recv()
	wants(t, "a namespace that is not hers", err, codes.PermissionDenied, "in namespace "+other)
}

// must is for streams, which fail only where they cannot be opened at all.
func must[T any](one T, err error) T {
	if err != nil {
		panic(err)
	}
	return one
}

func TestAWatchEndsWithTheCallersRight(t *testing.T) {
	s := newSite(t, "loses")
	s.service(s.ns, "one")
	bob := s.account("bob")
	role := &rbacv1.RoleBinding{}
	s.Make(&rbacv1.Role{}, "{metadata: {namespace: "+s.ns+", name: lists}, rules: [{apiGroups: [''], resources: [services], verbs: [list]}]}")
	s.Make(role, "{metadata: {namespace: "+s.ns+", name: lists}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lists}, subjects: [{kind: ServiceAccount, namespace: "+s.ns+", name: bob}]}")
	// Carol keeps another namespace.
	carol, other, hers := s.account("carol"), s.NewNamespace("loses"), &rbacv1.RoleBinding{}
	s.service(other, "two")
	s.Make(hers, "{metadata: {namespace: "+s.ns+", name: hers}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lists}, subjects: [{kind: ServiceAccount, namespace: "+s.ns+", name: carol}]}")
	s.Grant(s.user("carol"), other, rule("", "services", "list"))
	opened := func(ctx context.Context, count int) (stream grpc.ServerStreamingClient[tunnelv1.WatchServicesResponse]) {
		s.Eventually("the right counts", func() error {
			time.Sleep(500 * time.Millisecond) // a caller may not begin as many as it likes
			stream = must(s.client.WatchServices(ctx, &tunnelv1.WatchServicesRequest{}))
			m, err := stream.Recv()
			if err == nil && len(m.Changed) != count {
				err = fmt.Errorf("%v", m)
			}
			return err
		})
		return stream
	}
	stream, part := opened(bob, 1), opened(carol, 2)
	s.Remove(role)
	s.Remove(hers)
	wants(t, "the stream ends", end(stream), codes.PermissionDenied, "may not list services")
	wants(t, "the stream ends when a part of the rights is lost", end(part), codes.OutOfRange, "begin again")
}

// sandbox makes a sandbox with an external workload and a resource, as its controller does.
func (s *site) sandbox(name, annotations string) *crdv1.SignadotSandbox {
	s.Helper()
	sb := &crdv1.SignadotSandbox{}
	s.Make(sb, "{metadata: {name: "+name+", annotations: {"+annotations+"}}, spec: {id: key-"+name+", externalWorkloads: [{name: local, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: "+s.ns+", name: cart}, tunnel: {baselineToLocals: [{baselinePort: 80, localAddress: 'localhost:3000'}]}}]}}")
	owner := fmt.Sprintf("ownerReferences: [{apiVersion: %s, kind: SignadotSandbox, name: %s, uid: %s, controller: true}]", crdv1.APIVersion, name, sb.UID)
	s.Make(&crdv1.SignadotExternalWorkload{}, "{metadata: {namespace: "+s.ns+", name: "+name+"-local, "+owner+"}, spec: {name: local, routingKey: '', workloadID: '', baseline: {apiVersion: apps/v1, kind: Deployment, name: cart}, tunnel: {baselineToLocals: [{baselinePort: 80, localAddress: 'localhost:3000'}]}}}")
	r := &crdv1.Resource{}
	s.Make(r, "{metadata: {name: "+name+"-db, "+owner+"}, spec: {name: db, pluginName: p, olm: {}, outputNamespaces: ["+s.ns+"]}}")
	s.Make(&corev1.Secret{}, fmt.Sprintf("{metadata: {namespace: %s, name: %s, ownerReferences: [{apiVersion: %s, kind: Resource, name: %s, uid: %s, controller: true}]}, stringData: {make.url: 'postgres://x'}}", s.ns, r.Name, crdv1.APIVersion, r.Name, r.UID))
	return sb
}

// status changes the status of an object, as its controller does.
func (s *site) status(o client.Object, change func()) {
	s.Helper()
	s.Get(o)
	change()
	s.Must(s.Client.Status().Update(s.Context(), o))
}

func TestLocalSandboxesRequireTheRightToUpdateThem(t *testing.T) {
	s := newSite(t, "sandboxes")
	ann, his := s.ns+"-ann", s.ns+"-his"
	hers := rule(crdv1.Group, "signadotsandboxes", "update")
	hers.ResourceNames = []string{ann}
	ctx := s.account("ann", rule(crdv1.Group, "signadotsandboxes", "list"), hers)
	s.sandbox(his, "")
	stream := must(s.client.WatchLocalSandboxes(ctx, &tunnelv1.WatchLocalSandboxesRequest{MachineId: "m"}))
	m, err := stream.Recv()
	if err != nil || len(m.Sandboxes) > 0 {
		t.Fatalf("at first: %v, %v", m, err)
	}
	sb := s.sandbox(ann, api.AnnotationMachine+": m")
	for m == nil || len(m.Sandboxes) == 0 || len(m.Sandboxes[0].Resources) == 0 {
		if m, err = stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	got := m.Sandboxes[0]
	w := got.ExternalWorkloads[0]
	if len(m.Sandboxes) != 1 || got.SandboxName != ann || got.RoutingKey != "key-"+ann || w.Name != "local" || w.ObjectNamespace != s.ns || w.ObjectName != ann+"-local" ||
		w.Baseline.Namespace != s.ns || w.Baseline.Kind != "Deployment" || w.Baseline.ApiVersion != "apps/v1" || w.Baseline.Name != "cart" || w.WorkloadPortMapping[0].Baseline != 80 || w.Connected || got.Resources[0].Ready || w.WorkloadPortMapping[0].LocalAddress != "localhost:3000" || got.Resources[0].Name != "db" {
		t.Errorf("received %v", m)
	}
	x, r := &crdv1.SignadotExternalWorkload{}, &crdv1.Resource{}
	x.Namespace, x.Name, r.Name = s.ns, ann+"-local", ann+"-db"
	s.status(x, func() {
		x.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionTunnelConnected, Status: "True", Reason: "R", Message: "to a laptop"}}
	})
	s.status(r, func() {
		r.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "R"}}
	})
	for now := m.Sandboxes[0]; !now.ExternalWorkloads[0].Connected || now.ExternalWorkloads[0].Message != "to a laptop" || !now.Resources[0].Ready || now.Resources[0].Failed; now = m.Sandboxes[0] {
		if m, err = stream.Recv(); err != nil || len(m.Sandboxes) != 1 {
			t.Fatal(m, err)
		}
	}
	world.Edit(s.World, sb, func(o *crdv1.SignadotSandbox) { o.Annotations = map[string]string{api.AnnotationMachine: "another"} })
	for len(m.Sandboxes) > 0 {
		if m, err = stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = must(s.client.WatchLocalSandboxes(s.account("nobody"), &tunnelv1.WatchLocalSandboxesRequest{})).Recv()
	wants(t, "a user without rights", err, codes.PermissionDenied, "may not list signadotsandboxes")
}

func TestOutputsAreReadAsTheCaller(t *testing.T) {
	s := newSite(t, "outputs")
	name := s.ns + "-sb"
	s.sandbox(name, "")
	rights := []rbacv1.PolicyRule{rule(crdv1.Group, "signadotsandboxes", "list", "update")}
	may, mayNot := s.account("may", rights...), s.account("maynot", rights...)
	s.Grant(s.user("may"), s.ns, rule("", "secrets", "get"))
	ask := &tunnelv1.GetResourceOutputsRequest{RoutingKey: "key-" + name}
	s.Eventually("the outputs are read", func() error {
		got, err := s.client.GetResourceOutputs(may, ask)
		if err == nil && (len(got.Resources) != 1 || got.Resources[0].ResourceName != "db" || string(got.Resources[0].Outputs[0].OutputValue) != "postgres://x" || got.Resources[0].Outputs[0].OutputKey != "make.url") {
			t.Fatalf("%v", got)
		}
		return err
	})
	s.Eventually("a user that may not read Secrets is refused", func() error {
		if _, err := s.client.GetResourceOutputs(mayNot, ask); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "you may not read Secret") {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
	// The right to Secrets alone is not enough, nor is that to the sandbox without the one to use tunnels.
	s.sandbox(s.ns+"-other", "") // with a resource that is not reported
	for who, c := range map[string]struct {
		rights rbacv1.PolicyRule
		says   string
	}{
		"lists":   {rule(crdv1.Group, "signadotsandboxes", "list"), "may not update"},
		"updates": {rule(crdv1.Group, "signadotsandboxes", "update"), "may not list"},
	} {
		ctx := s.account(who, c.rights)
		s.Grant(s.user(who), s.ns, rule("", "secrets", "get"))
		s.Eventually("who "+who+" alone is refused", func() error {
			if _, err := s.client.GetResourceOutputs(ctx, ask); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), c.says) {
				return fmt.Errorf("%w", err)
			}
			return nil
		})
	}
	s.Eventually("the outputs are those of the sandbox beside another", func() error {
		got, err := s.client.GetResourceOutputs(may, ask)
		if err == nil && len(got.Resources) != 1 {
			t.Fatalf("%v", got)
		}
		return err
	})
	s.readsNothingPlanted(t, may)
	_, err := s.client.GetResourceOutputs(may, &tunnelv1.GetResourceOutputsRequest{RoutingKey: "none"})
	wants(t, "an unknown key", err, codes.NotFound, "no sandbox has the routing key")
	ours := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+s.Token(s.ns, "may", access.Audience, nil))
	_, err = s.client.GetResourceOutputs(ours, ask)
	wants(t, "a token that is for proxies alone", err, codes.Unauthenticated, "for the API server")
	if strings.Contains(s.logs.String(), "postgres://x") {
		t.Error("a value stands in the log")
	}
}

// readsNothingPlanted requests outputs where another user's Secret has their name, and where one
// of the namespaces is not readable for the caller.
func (s *site) readsNothingPlanted(t *testing.T, as context.Context) {
	name, closed := s.ns+"-moved", s.NewNamespace("closed")
	s.sandbox(name, "")
	world.Edit(s.World, &crdv1.Resource{ObjectMeta: metav1.ObjectMeta{Name: name + "-db"}}, func(r *crdv1.Resource) { r.Spec.OutputNamespaces = []string{closed, s.ns} })
	ask := &tunnelv1.GetResourceOutputsRequest{RoutingKey: "key-" + name}
	s.Eventually("the second namespace is read", func() error {
		time.Sleep(200 * time.Millisecond) // a caller may not begin as many as it likes
		_, err := s.client.GetResourceOutputs(as, ask)
		return err
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name + "-db"}}
	s.Remove(secret)
	s.Make(&corev1.Secret{}, "{metadata: {namespace: "+s.ns+", name: "+name+"-db}, stringData: {make.url: planted}}")
	if got, err := s.client.GetResourceOutputs(as, ask); err == nil {
		t.Errorf("another user's Secret is returned as outputs: %v", got)
	}
}

func TestCertificatesAndCredentialsAreTheCallers(t *testing.T) {
	s := newSite(t, "issue")
	ctx := s.account("ada", rule(crdv1.Group, "signadotsandboxes", "list"))
	public, _, err := ed25519.GenerateKey(rand.Reader)
	s.Must(err)
	key, err := ssh.NewPublicKey(public)
	s.Must(err)
	var got *tunnelv1.IssueSSHCertificateResponse
	s.Eventually("a certificate is issued", func() (err error) {
		got, err = s.client.IssueSSHCertificate(ctx, &tunnelv1.IssueSSHCertificateRequest{PublicKey: string(ssh.MarshalAuthorizedKey(key))})
		return err
	})
	cert, _, _, _, err := ssh.ParseAuthorizedKey([]byte(got.Certificate))
	s.Must(err)
	user, err := sshcert.Check(s.keys.SSHCA.PublicKey(), cert, time.Now())
	if err != nil || user.Name != s.user("ada") || len(user.Groups) == 0 {
		t.Errorf("the certificate is of %+v: %v", user, err)
	}
	_, hosts, host, _, _, err := ssh.ParseKnownHosts([]byte(got.KnownHosts))
	if err != nil || string(host.Marshal()) != string(s.keys.Host.Marshal()) || !strings.Contains(strings.Join(hosts, " "), "[tunnel-proxy.*]:2222") {
		t.Errorf("known hosts are %q: %v", got.KnownHosts, err)
	}
	socks, err := s.client.IssueSOCKSCredential(ctx, &tunnelv1.IssueSOCKSCredentialRequest{})
	s.Must(err)
	if err := credential.Check(s.keys.SOCKS, socks.User, socks.Password, time.Now()); err != nil || socks.User != s.user("ada") || !socks.Expires.AsTime().After(time.Now()) {
		t.Errorf("the credential is of %s: %v", socks.User, err)
	}
	_, err = s.client.IssueSSHCertificate(ctx, &tunnelv1.IssueSSHCertificateRequest{PublicKey: "ssh-junk"})
	wants(t, "junk for a key", err, codes.InvalidArgument, "the public key is none")
	for what, call := range map[string]func(context.Context) error{
		"a certificate": func(ctx context.Context) error {
			_, err := s.client.IssueSSHCertificate(ctx, &tunnelv1.IssueSSHCertificateRequest{PublicKey: string(ssh.MarshalAuthorizedKey(key))})
			return err
		},
		"a credential": func(ctx context.Context) error {
			_, err := s.client.IssueSOCKSCredential(ctx, &tunnelv1.IssueSOCKSCredentialRequest{})
			return err
		},
	} {
		nobody := s.account("nobody-" + strings.Fields(what)[1])
		for range 10 { // more than one user may have at a time: refused calls do not count
			wants(t, what+" for a user without rights", call(nobody), codes.PermissionDenied, "may not list signadotsandboxes")
		}
	}
}

// A caller gets the sandboxes of which he is the last author, or those that he names; and of
// addresses only those that the specification has.
func TestSandboxesAreSelectedByAuthor(t *testing.T) {
	s := newSite(t, "authors")
	ctx := s.account("ann", rule(crdv1.Group, "signadotsandboxes", "list", "update"))
	author := func(user string) string {
		return crdv1.AnnotationAuthor + ": '" + crdv1.Author{User: user}.String() + "'"
	}
	own, his, old, bound := s.ns+"-own", s.ns+"-his", s.ns+"-old", s.ns+"-bound"
	s.sandbox(own, author(s.user("ann")))
	s.sandbox(his, author("bob"))
	s.sandbox(old, "")
	s.sandbox(bound, author(s.user("ann"))+", "+api.AnnotationMachine+": m")
	ours := func(all []string) (out []string) {
		for _, name := range all {
			if strings.HasPrefix(name, s.ns+"-") {
				out = append(out, name)
			}
		}
		return out
	}
	for what, c := range map[string]struct {
		request *tunnelv1.WatchLocalSandboxesRequest
		want    string
	}{
		"plain":              {&tunnelv1.WatchLocalSandboxesRequest{}, own + "=own"},
		"by name":            {&tunnelv1.WatchLocalSandboxesRequest{Sandboxes: []string{own, his, old}}, his + "=bob " + old + "= " + own + "=own"},
		"bound, by name":     {&tunnelv1.WatchLocalSandboxesRequest{Sandboxes: []string{bound}}, ""},
		"by machine":         {&tunnelv1.WatchLocalSandboxesRequest{MachineId: "m"}, bound + "=own"},
		"by both":            {&tunnelv1.WatchLocalSandboxesRequest{MachineId: "m", Sandboxes: []string{own, bound}}, bound + "=own"},
		"by another machine": {&tunnelv1.WatchLocalSandboxesRequest{MachineId: "n"}, ""},
	} {
		s.Eventually(what+": the sandboxes are selected", func() error {
			time.Sleep(500 * time.Millisecond) // a caller may not begin as many as it likes
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			m, err := must(s.client.WatchLocalSandboxes(ctx, c.request)).Recv()
			if err != nil {
				return err
			}
			var got []string
			for _, one := range m.Sandboxes {
				if !strings.HasPrefix(one.SandboxName, s.ns+"-") {
					t.Errorf("%s: sandbox %s is selected", what, one.SandboxName)
				}
				by := one.Author
				if one.CallerIsAuthor {
					by = "own"
				}
				if got = append(got, one.SandboxName+"="+by); one.Uid == "" || len(one.ExternalWorkloads[0].WorkloadPortMapping) != 1 {
					t.Errorf("%s: %v", what, one)
				}
			}
			if strings.Join(got, " ") != c.want || what == "plain" && len(ours(m.Others)) != 3 {
				return fmt.Errorf("%v, and others %v", got, m.Others)
			}
			return nil
		})
	}
	world.Edit(s.World, &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: own + "-local"}}, func(w *crdv1.SignadotExternalWorkload) {
		w.Spec.Tunnel.BaselineToLocals[0].LocalAddress = "localhost:2375"
	})
	stream := must(s.client.WatchLocalSandboxes(ctx, &tunnelv1.WatchLocalSandboxesRequest{}))
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if ports := m.Sandboxes[0].ExternalWorkloads[0].WorkloadPortMapping; len(ports) == 0 {
			break // what the specification does not have is not reported as its author's
		} else if ports[0].LocalAddress != "localhost:3000" {
			t.Fatalf("an address that the specification does not have: %v", ports)
		}
	}
}

// An external workload and a resource with the name of a sandbox in their owner references, and
// another UID, are not the sandbox's.
func TestForgedMembersAreNotReported(t *testing.T) {
	s := newSite(t, "forged")
	ctx := s.account("ann", rule(crdv1.Group, "signadotsandboxes", "list", "update"))
	hers, his := s.ns+"-hers", s.ns+"-his"
	bobs := s.sandbox(his, "")
	for uid, name := range map[string]string{string(bobs.UID): "of-his", "6ba7b810-9dad-11d1-80b4-00c04fd430c8": "of-none"} {
		owner := fmt.Sprintf("ownerReferences: [{apiVersion: %s, kind: SignadotSandbox, name: %s, uid: %s, controller: true}]", crdv1.APIVersion, hers, uid)
		s.Make(&crdv1.SignadotExternalWorkload{}, "{metadata: {namespace: "+s.ns+", name: "+name+", "+owner+"}, spec: {name: local, routingKey: '', workloadID: '', baseline: {apiVersion: apps/v1, kind: Deployment, name: cart}, tunnel: {baselineToLocals: [{baselinePort: 80, localAddress: 'localhost:3000'}]}}}")
		s.Make(&crdv1.Resource{}, "{metadata: {name: "+s.ns+"-"+name+", "+owner+"}, spec: {name: "+name+", pluginName: p, olm: {}, outputNamespaces: ["+s.ns+"]}}")
	}
	s.sandbox(hers, "") // created last: a report with it includes all of the others
	stream := must(s.client.WatchLocalSandboxes(ctx, &tunnelv1.WatchLocalSandboxesRequest{Sandboxes: []string{hers}}))
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Sandboxes) == 0 || len(m.Sandboxes[0].Resources) == 0 {
			continue
		}
		one := m.Sandboxes[0]
		if len(one.ExternalWorkloads) != 1 || one.ExternalWorkloads[0].ObjectName != hers+"-local" || len(one.Resources) != 1 || one.Resources[0].Name != "db" {
			t.Errorf("sandbox %s is reported with forged members: %v", hers, one)
		}
		break
	}
}
