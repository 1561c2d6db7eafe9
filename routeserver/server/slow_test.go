package server_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/server"
)

const manyRules = 5000

// rules returns the facts of so many rules of one workload.
func rules(n int) (facts []event.Fact) {
	for i := range n {
		key := fmt.Sprintf("key-%013d", i)
		var ports []*factv1.PortPair
		for port := range uint32(8) {
			ports = append(ports, &factv1.PortPair{Port: 80 + port, WorkloadPort: 8080 + port})
		}
		facts = append(facts, fact(event.RoutingKey(key), &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{
			{Kind: "ForkedWorkload", Namespace: "ns", Name: key, Sandbox: "sandbox-" + key},
		}}), fact(event.Workload("ForkedWorkload", "ns", key), &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "ns", Name: key, Uid: "uid-" + key},
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: "customer"},
			Services: []*factv1.ServicePair{{From: "customer", To: "customer-of-the-sandbox-" + key, ClusterIp: "10.0.0.1", Ports: ports}},
			Ready:    true,
		}))
	}
	return append(facts, fact(event.Log, &factv1.Complete{Reason: "first"}))
}

// mostHeap looks at the heap until a while has passed, and returns the most it was more
// than before, in MiB.
func mostHeap(before uint64, within time.Duration) (most float64) {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		most = max(most, (float64(heap())-float64(before))/(1<<20))
	}
	return most
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Readers that ask for all rules and take nothing share one answer.
func TestSlowReadersShareResponses(t *testing.T) {
	const readers, mostMiB = 100, 64
	log := memory.New()
	m := run(t, server.Config{Log: log})
	state(t, log, rules(manyRules)...)
	if _, err := m.View().WaitWhole(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := heap()
	for n := range readers {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(10+n%100))}}
		c, err := dialer.Dial("tcp", m.RESTAddress())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(c, "GET /api/v1/workloads/routing-rules HTTP/1.1\r\nHost: routes\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	most := mostHeap(before, 4*time.Second)
	code, body := get(t, "http://"+m.RESTAddress()+"/api/v1/workloads/routing-rules")
	t.Logf("%d slow readers of %d rules, %.1f MiB, take %.0f MiB", readers, manyRules, float64(len(body))/(1<<20), most)
	if most > mostMiB {
		t.Errorf("%d slow readers take %.0f MiB, more than %d", readers, most, mostMiB)
	}
	if code != 200 || len(body) < manyRules*100 {
		t.Errorf("an honest reader: %d, %d bytes", code, len(body))
	}
}

// stuck is a connection that is read from no more after the first bytes, which it says.
type stuck struct {
	net.Conn
	left   int
	is     func()
	closed chan struct{}
}

// Read implements net.Conn.
func (s *stuck) Read(b []byte) (int, error) {
	if s.left <= 0 {
		s.is()
		<-s.closed
		return 0, net.ErrClosed
	}
	n, err := s.Conn.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

// The same over gRPC: each client asks several times on one connection.
func TestSlowCallersShareResponses(t *testing.T) {
	const clients, calls, mostMiB = 30, 24, 96
	log := memory.New()
	m := run(t, server.Config{Log: log})
	state(t, log, rules(manyRules)...)
	if _, err := m.View().WaitWhole(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := heap()
	closed := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var sent atomic.Int32
	for n := range clients {
		is := sync.OnceFunc(func() { sent.Add(1) })
		conn, err := grpc.NewClient("passthrough:"+m.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithInitialWindowSize(64<<20), grpc.WithInitialConnWindowSize(256<<20),
			grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) {
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(10+n))}}
				c, err := dialer.DialContext(ctx, "tcp", a)
				if err != nil {
					return nil, err
				}
				return &stuck{c, 256, is, closed}, c.(*net.TCPConn).SetReadBuffer(4 << 10)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range calls {
			all.Go(func() {
				if _, err := routesv1.NewRoutesClient(conn).GetWorkloadRoutingRules(ctx, &routesv1.WorkloadRoutingRulesRequest{}); status.Code(err) != codes.Canceled {
					t.Errorf("a call of which nothing is taken ends with %v", err)
				}
			})
		}
	}
	eventually(t, "every slow caller is being answered", func() bool { return sent.Load() == clients })
	most := mostHeap(before, 4*time.Second)
	t.Logf("%d slow callers with %d calls each take %.0f MiB", clients, calls, most)
	if most > mostMiB {
		t.Errorf("%d slow callers take %.0f MiB, more than %d", clients, most, mostMiB)
	}
	honest, err := grpc.NewClient("passthrough:"+m.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer honest.Close()
	got, err := routesv1.NewRoutesClient(honest).GetWorkloadRoutingRules(ctx, &routesv1.WorkloadRoutingRulesRequest{}, grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil || len(got.GetRoutingRules()) != manyRules {
		t.Errorf("an honest caller: %d rules, %v", len(got.GetRoutingRules()), err)
	}
	stop()
	all.Wait()
	close(closed)
}
