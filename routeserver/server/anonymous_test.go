package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routesv1 "switchyard.dev/protos/gen/routes"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/routeserver/podaddr"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/services"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/world"
)

// How long a pod is believed to have an address, and how often that of a stream's caller is
// looked at again.
const keepPod, lookAgain = time.Second, 2 * time.Second

// confined is a cluster and a route server in it that answers about namespaces a and b, to
// strangers about their own only. Pods have addresses of this machine.
type confined struct {
	*world.World
	log  *memory.Log
	main *server.Main
}

func newConfined(t *testing.T) confined {
	t.Helper()
	c := confined{World: world.New(t), log: memory.New()}
	verifier, err := tokens.New(tokens.Config{Reviews: c.Kube.AuthenticationV1().TokenReviews(), Audience: door.Audience})
	c.Must(err)
	finder, err := podaddr.New(podaddr.Config{Pods: c.Kube.CoreV1(), Keep: keepPod})
	c.Must(err)
	lister, err := services.New(c.Kube, slog.New(slog.DiscardHandler))
	c.Must(err)
	for _, name := range []string{"a", "b"} {
		c.Namespaces(name)
		c.Create(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "cart"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		})
	}
	c.main = run(t, server.Config{
		Log: c.log, Services: lister,
		Door: door.New(door.Config{
			Verify: verifier.VerifyAdmitted, Anonymous: door.Namespace, Namespace: finder.Namespace, LookAgain: lookAgain,
		}),
		Parts: []server.Part{func(ctx context.Context, _ *view.View) error {
			lister.Run(ctx)
			return nil
		}},
	})
	state(t, c.log, append(ruleIn("a"), append(ruleIn("b"), fact(event.Log, &factv1.Complete{Reason: "first"}))...)...)
	if _, err := c.main.View().WaitWhole(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Services are known", func() bool {
		list, err := lister.List(t.Context())
		return err == nil && len(list) >= 2
	})
	return c
}

// ruleIn returns the facts of a rule of a workload cart in a namespace; its key and its
// sandbox are called as the namespace is.
func ruleIn(namespace string) []event.Fact {
	return []event.Fact{
		fact(event.RoutingKey(namespace), &factv1.RoutingDeclared{RoutingKey: namespace, Members: []*factv1.Member{
			{Kind: "ForkedWorkload", Namespace: namespace, Name: "w1", Sandbox: namespace},
		}}),
		fact(event.Workload("ForkedWorkload", namespace, "w1"), &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: namespace, Name: "w1", Uid: namespace},
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: namespace, Name: "cart"},
		}),
	}
}

// running has a pod run at 127.0.0.n, of which from(n) is a client.
func (c confined) running(namespace, name string, n int, hostNetwork bool) *corev1.Pod {
	c.Helper()
	address := fmt.Sprintf("127.0.0.%d", n)
	return c.RunPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}, corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}})
}

// token returns a token of an account of namespace a for an audience.
func (c confined) token(audience string) string {
	c.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", GenerateName: "ci-"}}
	c.Create(account)
	return c.Token("a", account.Name, audience, nil)
}

// caller calls from 127.0.0.n, with a token unless that is "". It says of each request over
// HTTP that it was forwarded for the pod in namespace b.
type caller struct {
	confined
	n     int
	token string
}

// ask returns what is answered over HTTP: the body, or the code and what is said.
func (c caller) ask(path string) (body, refused string, header http.Header) {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://"+c.main.RESTAddress()+path, nil)
	c.Must(err)
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Envoy-External-Address", "True-Client-Ip"} {
		r.Header.Set(name, "127.0.0.12")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := from(c.n).Do(r)
	c.Must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	c.Must(err)
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Sprint(answer.StatusCode, " ", string(text)), answer.Header
	}
	return string(text), "", answer.Header
}

// rules returns the namespaces of what is answered over HTTP, or why nothing is.
func (c caller) rules(query string) string {
	body, refused, _ := c.ask("/api/v1/workloads/routing-rules" + query)
	if refused != "" {
		return refused
	}
	var list struct {
		RoutingRules []struct {
			Baseline struct{ Namespace string }
		}
	}
	c.Must(json.Unmarshal([]byte(body), &list))
	var of []string
	for _, r := range list.RoutingRules {
		of = append(of, r.Baseline.Namespace)
	}
	return said(of, nil)
}

// said is what a test looks at: names, or a code and what is said.
func said(of []string, err error) string {
	if err != nil {
		return status.Code(err).String() + " " + status.Convert(err).Message()
	}
	slices.Sort(of)
	return strings.Join(of, " ")
}

// dial returns a client of gRPC, which shows the token.
func (c caller) dial() *grpc.ClientConn {
	c.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(c.n))}}
	conn, err := grpc.NewClient("passthrough:"+c.main.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", to) }))
	c.Must(err)
	c.Cleanup(func() { _ = conn.Close() })
	return conn
}

// context has what the caller shows over gRPC. It ends after a minute.
func (c caller) context() context.Context {
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	c.Cleanup(cancel)
	ctx = metadata.AppendToOutgoingContext(ctx, "x-forwarded-for", "127.0.0.12")
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
	}
	return ctx
}

func (c caller) unary(f *routesv1.WorkloadRoutingRulesRequest) string {
	answer, err := routesv1.NewRoutesClient(c.dial()).GetWorkloadRoutingRules(c.context(), f)
	var of []string
	for _, r := range answer.GetRoutingRules() {
		of = append(of, r.GetBaseline().GetNamespace())
	}
	return said(of, err)
}

func (c caller) services() string {
	answer, err := routesv1.NewRoutesClient(c.dial()).GetClusterServices(c.context(), &routesv1.GetClusterServicesRequest{})
	var of []string
	for _, s := range answer.GetServices() {
		if name, namespace, _ := strings.Cut(s.GetHostname(), "."); name == "cart" {
			of = append(of, strings.TrimSuffix(namespace, ".svc"))
		}
	}
	return said(of, err)
}

// watch watches, and returns the namespaces of what there is at first.
func (c caller) watch(f *routesv1.WorkloadRoutingRulesRequest) (grpc.ServerStreamingClient[routesv1.WorkloadRoutingRuleOp], string) {
	stream, err := routesv1.NewRoutesClient(c.dial()).WatchWorkloadRoutingRules(c.context(), f)
	c.Must(err)
	var of []string
	for {
		op, err := stream.Recv()
		if err != nil || op.GetOp() == routesv1.WatchOp_SYNCED {
			return stream, said(of, err)
		}
		of = append(of, op.GetRoute().GetBaseline().GetNamespace())
	}
}

func (c caller) own() string {
	answer, err := routingv1.NewRoutingClient(c.dial()).GetTable(c.context(), &routingv1.GetTableRequest{})
	var of []string
	for _, r := range answer.GetRules() {
		of = append(of, r.GetBaseline().GetNamespace())
	}
	return said(of, err)
}

func TestAnonymousCallersAreConfinedToTheirNamespace(t *testing.T) {
	c := newConfined(t)
	for _, part := range []struct {
		name string
		test func(confined, *testing.T)
	}{
		{"who is answered what", confined.answers},
		{"a narrowed answer says so", confined.saysSo},
		{"an address moves to another namespace", confined.moves},
		{"a watch is told of its namespace", confined.watches},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.test(c.of(t), t)
		})
	}
}

// of returns the same world to another test.
func (c confined) of(t *testing.T) confined {
	c.World = c.In(t)
	return c
}

func (c confined) answers(t *testing.T) {
	c.running("a", "cart", 11, false)
	c.running("b", "cart", 12, false)
	c.running("b", "agent", 13, true)
	good, expired := c.token(door.Audience), "e30."+base64.RawURLEncoding.EncodeToString([]byte(`{"aud": "`+door.Audience+`", "exp": 1}`))+".c2ln"
	inB := &routesv1.WorkloadRoutingRulesRequest{BaselineWorkload: &routesv1.BaselineWorkload{Namespace: "b"}}
	const noToken, other, whole = "for the audience " + door.Audience, "that is a, and this call asks about b", "about the whole cluster"
	for name, tt := range map[string]struct {
		caller
		all, ofB, keyOfB, table string // what is answered, or a part of why nothing is
	}{
		"a pod in a":                 {caller{c, 11, ""}, "a", other, "", whole},
		"a pod in b":                 {caller{c, 12, ""}, "b", "b", "b", whole},
		"a pod in the host network":  {caller{c, 13, ""}, "address of a node", "address of a node", "address of a node", whole},
		"nobody knows who":           {caller{c, 14, ""}, "no running pod", "no running pod", "no running pod", whole},
		"a forwarded port":           {caller{c, 1, ""}, "port-forward", "port-forward", "port-forward", whole},
		"whoever shows a token":      {caller{c, 14, good}, "a b", "b", "b", "a b"},
		"a pod in a with a token":    {caller{c, 11, good}, "a b", "b", "b", "a b"},
		"a token that has run out":   {caller{c, 11, expired}, "not valid here", "not valid here", "not valid here", "not valid here"},
		"a token of somebody's mesh": {caller{c, 11, c.token("istio")}, "a", other, "", whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.confined = c.of(t)
			_, watched := tt.watch(nil)
			_, watchedB := tt.watch(inB)
			_, ownREST, _ := tt.ask("/api/switchyard/v1/table")
			for _, one := range []struct{ what, got, want string }{
				{"REST", tt.rules(""), tt.all},
				{"REST of b", tt.rules("?baselineNamespace=b"), tt.ofB},
				{"REST of a key of b", tt.rules("?routingKey=b&baselineName=cart"), tt.keyOfB},
				{"gRPC", tt.unary(nil), tt.all},
				{"gRPC of b", tt.unary(inB), tt.ofB},
				{"a watch", watched, tt.all},
				{"a watch of b", watchedB, tt.ofB},
				{"Services", tt.services(), tt.all},
				{"our own API", tt.own(), tt.table},
				{"our own API over HTTP", ownREST, strings.TrimPrefix(tt.table, "a b")},
			} {
				switch {
				case one.got == one.want:
				case len(one.want) > len("a b") && strings.Contains(one.got, one.want) && strings.Contains(one.got, noToken) &&
					(strings.HasPrefix(one.got, "401 ") || strings.HasPrefix(one.got, codes.Unauthenticated.String())):
				default:
					t.Errorf("%s: %q, want %q", one.what, one.got, one.want)
				}
			}
		})
	}
}

// Whoever gets a narrowed answer can see it, and has it anew once he shows a token.
func (c confined) saysSo(t *testing.T) {
	c.running("a", "tells", 21, false)
	good := c.token(door.Audience)
	_, _, narrowed := caller{c, 21, ""}.ask("/api/v1/workloads/routing-rules")
	_, _, all := caller{c, 21, good}.ask("/api/v1/workloads/routing-rules")
	if narrowed.Get(door.NamespaceHeader) != "a" || all.Get(door.NamespaceHeader) != "" {
		t.Errorf("narrowed to %q, and to %q with a token", narrowed.Get(door.NamespaceHeader), all.Get(door.NamespaceHeader))
	}
	if narrowed.Get("ETag") == "" || narrowed.Get("ETag") == all.Get("ETag") {
		t.Errorf("other answers have the same ETag %s", all.Get("ETag"))
	}
	var header metadata.MD
	call := caller{c, 21, ""}
	if _, err := routesv1.NewRoutesClient(call.dial()).GetWorkloadRoutingRules(call.context(), nil, grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	if got := header.Get(door.NamespaceHeader); !slices.Equal(got, []string{"a"}) {
		t.Errorf("gRPC: narrowed to %q", got)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if _, refused, _ := (caller{c, 14, ""}).ask(path); refused != "" {
			t.Errorf("a probe of %s: %s", path, refused)
		}
	}
}

// A watch tells what changes in its namespace, and nothing of what changes elsewhere.
func (c confined) watches(t *testing.T) {
	c.running("a", "watches", 31, false)
	stream, first := caller{c, 31, ""}.watch(nil)
	if first != "a" {
		t.Fatalf("it begins with %q", first)
	}
	for _, namespace := range []string{"b", "a"} {
		declared, _, err := c.log.Newest(t.Context(), event.RoutingKey(namespace))
		c.Must(err)
		_, err = c.log.Append(t.Context(), fact(event.RoutingKey(namespace), &factv1.RoutingWithdrawn{RoutingKey: namespace}), declared.Pos.Seq)
		c.Must(err)
	}
	op, err := stream.Recv()
	if err != nil || op.GetOp() != routesv1.WatchOp_REMOVE || op.GetRoute().GetRoutingKey() != "a" {
		t.Errorf("it is told %v, %v", op, err)
	}
}

// A pod of a goes, and one of b gets its address.
func (c confined) moves(t *testing.T) {
	before := c.running("a", "before", 41, false)
	call := caller{c, 41, ""}
	stream, first := call.watch(nil)
	if first != "a" || call.rules("") != "a" {
		t.Fatalf("before: %q", first)
	}
	c.Remove(before)
	c.running("b", "after", 41, false)
	moved := time.Now()
	eventually(t, "the next pod is answered about its own namespace", func() bool { return call.rules("") == "b" })
	if took := time.Since(moved); took > 10*keepPod {
		t.Errorf("for %s the next pod was taken for the one before", took)
	}
	// What was begun for the pod before ends.
	_, err := stream.Recv()
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "another namespace") {
		t.Errorf("the watch ends with %v", err)
	}
	if _, again := call.watch(nil); again != "b" {
		t.Errorf("begun again it says %q", again)
	}
}
