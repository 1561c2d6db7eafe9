package serve_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

func subscription(names ...string) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResourceNamesSubscribe: names}
}

func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}

func TestMemoryOfAnIdentityIsBounded(t *testing.T) {
	cases := map[string]serve.Config{
		"by names": {NamesPerPeer: 150, FirstRequest: time.Minute},
		"by bytes": {BytesPerPeer: 16_000, FirstRequest: time.Minute},
	}
	for name, config := range cases {
		t.Run(name, func(t *testing.T) {
			_, conn := serveStore(t, newStore(), config)
			first := xdstest.Open(t, conn, "a")
			first.Send(subscription(numbered("name", 100)...))
			first.Next()
			second := xdstest.Open(t, conn, "a")
			second.Send(subscription(numbered("other", 100)...))
			if err := second.Ended(); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("the second stream: %v", err)
			}
			other := xdstest.Open(t, conn, "b")
			other.Send(subscription(numbered("name", 100)...))
			other.Next()
			// What the second held is free again.
			first.Close()
			eventually(t, "there is room again", func() bool {
				again := xdstest.Open(t, conn, "a")
				defer again.Close()
				again.Send(subscription(numbered("name", 100)...))
				return again.Served()
			})
		})
	}
}

// A client that is sent something, refuses it, and comes back to be sent it again
// costs little: it is let in a few times, and then now and then.
func TestAClientThatComesBackAgainAndAgainIsLetInRarely(t *testing.T) {
	s := newStore()
	s.set(translate.RouteType, "a", "1")
	_, conn := serveStore(t, s, serve.Config{OpensPerPeer: 3, OpenEvery: time.Hour})
	sent := 0
	for range 10 {
		client := xdstest.Open(t, conn, "rejecting")
		client.Send(subscription("a"))
		if !client.Served() {
			continue
		}
		sent++
		client.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResponseNonce: "1"})
		client.Close()
	}
	if sent != 3 {
		t.Errorf("it was sent the same %d times, want 3", sent)
	}
	other := xdstest.Open(t, conn, "other")
	other.Send(subscription("a"))
	other.Next()
}

func TestAnIdentityEarnsItsStreamsBack(t *testing.T) {
	_, conn := serveStore(t, newStore(), serve.Config{OpensPerPeer: 1, OpenEvery: 50 * time.Millisecond})
	for range 3 {
		eventually(t, "it is let in again", func() bool {
			client := xdstest.Open(t, conn, "a")
			defer client.Close()
			client.Send(subscription("a"))
			return client.Served()
		})
	}
}

// hostile are requests that other servers were made to hold memory by.
var hostile = map[string]func(i int) *discoveryv3.DeltaDiscoveryRequest{
	"a node of its own": func(i int) *discoveryv3.DeltaDiscoveryRequest {
		r := subscription("a")
		r.Node = &corev3.Node{Id: fmt.Sprint(i, strings.Repeat("n", 100_000))}
		return r
	},
	"a type of its own": func(i int) *discoveryv3.DeltaDiscoveryRequest {
		r := subscription("a")
		r.TypeUrl = fmt.Sprint(i, strings.Repeat("t", 100_000))
		return r
	},
	"names of its own": func(i int) *discoveryv3.DeltaDiscoveryRequest {
		return subscription(numbered(fmt.Sprint(i, strings.Repeat("x", 50)), 5_000)...)
	},
	"more names than may be": func(int) *discoveryv3.DeltaDiscoveryRequest {
		return subscription(numbered("y", 20_000)...)
	},
	"versions without end": func(i int) *discoveryv3.DeltaDiscoveryRequest {
		r := subscription("a")
		r.InitialResourceVersions = map[string]string{"a": fmt.Sprint(i, strings.Repeat("v", 500_000))}
		return r
	},
	"nothing": func(int) *discoveryv3.DeltaDiscoveryRequest { return &discoveryv3.DeltaDiscoveryRequest{} },
}

// heap returns the bytes in use, after garbage is collected.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestHostileRequestsCostLittleAndNothingStays(t *testing.T) {
	const identities, rounds = 4, 2
	server, conn := serveStore(t, newStore(), serve.Config{OpensPerPeer: 1 << 20})
	before := heap()
	for kind, request := range hostile {
		for i := range rounds {
			var open []*xdstest.Client
			for id := range identities {
				client := xdstest.Open(t, conn, fmt.Sprint("peer-", id))
				for j := range 3 {
					client.Send(request(i*100 + id*10 + j))
				}
				open = append(open, client)
			}
			if grown := heap() - before; grown > 64<<20 {
				t.Fatalf("%s: %d MiB are held", kind, grown>>20)
			}
			for _, client := range open {
				client.Close()
			}
		}
	}
	eventually(t, "the streams are gone", func() bool { return len(server.Acks()) == 0 })
	eventually(t, "what they held is free", func() bool { return heap()-before < 8<<20 })
}

// A client that stops reading does not block others, and its stream is ended.
func TestAClientThatStopsReadingHoldsUpNobody(t *testing.T) {
	s := newStore()
	big := strings.Repeat("v", 200_000) // more than a connection takes unread
	s.set(translate.RouteType, "big", "1"+big)
	s.set(translate.RouteType, "small", "1")
	server, conn := serveStore(t, s, serve.Config{Writers: 1, Pace: time.Millisecond, Write: time.Minute})
	stuck := xdstest.Open(t, xdstest.Dial(t, conn.Target()), "stuck")
	stuck.Send(subscription("big"))
	stuck.Next()
	// It acknowledges a response that it has not read, so that more is written.
	for i := range 2 {
		version := fmt.Sprint(i+2, big)
		stuck.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResponseNonce: fmt.Sprint(i + 1)})
		s.set(translate.RouteType, "big", version)
		eventually(t, "the next is being written", func() bool {
			acks := server.Acks()
			return len(acks) == 1 && acks[0].Sent == version
		})
	}
	other := xdstest.Open(t, conn, "other")
	other.Send(subscription("small"))
	other.Ack(other.Next())
	for i := range 20 {
		s.set(translate.RouteType, "small", fmt.Sprint(i+2))
		if r := other.Next(); r.Resources[0].Version == fmt.Sprint(i+2) {
			other.Ack(r)
		}
	}
	if acks := server.Acks(); len(acks) != 2 {
		t.Errorf("%d streams, want both", len(acks))
	}
}

func TestChangesWithinThePaceAreSentTogether(t *testing.T) {
	s := newStore()
	s.set(translate.RouteType, "a", "1")
	s.set(translate.RouteType, "b", "1")
	server, conn := serveStore(t, s, serve.Config{Pace: time.Hour})
	client := xdstest.Open(t, conn, "a")
	client.Send(subscription("a", "b"))
	client.Ack(client.Next()) // the first is sent at once
	ackedAll := func() bool {
		for _, a := range server.Acks() {
			if a.Acked != "1" {
				return false
			}
		}
		return true
	}
	eventually(t, "it has acknowledged", ackedAll)
	s.set(translate.RouteType, "a", "2")
	client.Send(subscription("b")) // a request, after which the stream looks again
	eventually(t, "the request is taken in", func() bool { return !ackedAll() })
	for _, a := range server.Acks() {
		if a.Sent != "1" {
			t.Errorf("%s: version %s was sent within the pace", a.Name, a.Sent)
		}
	}

	_, quick := serveStore(t, s, serve.Config{Pace: 50 * time.Millisecond})
	client = xdstest.Open(t, quick, "a")
	client.Send(subscription("a", "b"))
	client.Ack(client.Next())
	s.set(translate.RouteType, "a", "3")
	s.set(translate.RouteType, "b", "3")
	if r := client.Next(); len(r.Resources) != 2 || r.Resources[0].Version != "3" || r.Resources[1].Version != "3" {
		t.Errorf("got %v, want both together", r.Resources)
	}
}

// A connection carries so many streams, and headers of so many bytes.
func TestLimitsOfAConnection(t *testing.T) {
	_, conn := serveStore(t, newStore(), serve.Config{})
	var open []*xdstest.Client
	for i := range 16 {
		client := xdstest.Open(t, conn, fmt.Sprint("peer-", i))
		client.Send(subscription("a"))
		client.Next()
		open = append(open, client)
	}
	late := make(chan struct{})
	go func() {
		defer close(late)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer late")
		rpc, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
		if err != nil || rpc.Send(subscription("a")) != nil {
			return
		}
		_, _ = rpc.Recv()
	}()
	select {
	case <-late:
		t.Error("a seventeenth stream was served")
	case <-time.After(200 * time.Millisecond):
	}
	open[0].Close()
	<-late

	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+strings.Repeat("x", 40<<10))
	rpc, err := discoveryv3.NewAggregatedDiscoveryServiceClient(xdstest.Dial(t, conn.Target())).DeltaAggregatedResources(ctx)
	if err == nil {
		_, err = rpc.Recv()
	}
	if err == nil {
		t.Error("headers of 40 KiB were taken")
	}
}

// A peer that has vanished without a word, as a node does, is found.
func TestAPeerThatVanishedIsFound(t *testing.T) {
	t.Parallel()
	server, conn := serveStore(t, newStore(), serve.Config{})
	gone := make(chan struct{})
	client := xdstest.Open(t, xdstest.Dial(t, conn.Target(), grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		return &vanishing{Conn: c, gone: gone, closed: make(chan struct{})}, err
	})), "a")
	client.Send(subscription("a"))
	client.Next()
	close(gone)
	eventually(t, "its stream goes", func() bool { return len(server.Acks()) == 0 })
}

// vanishing is a connection that neither reads nor writes any more, and is open.
type vanishing struct {
	net.Conn
	gone, closed chan struct{}
	once         sync.Once
}

// Close unblocks the reader; the other end is not notified before.
func (v *vanishing) Close() error {
	v.once.Do(func() { close(v.closed) })
	return v.Conn.Close()
}

func (v *vanishing) Read(b []byte) (int, error) {
	n, err := v.Conn.Read(b)
	if isClosed(v.gone) {
		<-v.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (v *vanishing) Write(b []byte) (int, error) {
	if isClosed(v.gone) {
		return len(b), nil
	}
	return v.Conn.Write(b)
}

func TestStreamsAreMeasured(t *testing.T) {
	board := xdstest.NewBoard(t)
	board.Declare(fork(customer, "k1"))
	board.Complete()
	registry := prometheus.NewRegistry()
	_, conn := start(t, board, serve.Config{Metrics: registry})
	client := xdstest.Open(t, conn, "pod@customer")
	client.SubscribeParts(customer, nil)
	client.Ack(client.Next())
	board.Declare(fork(customer, "k2"))
	client.Nack(client.Next(), "no")
	measured := func(name string) (value float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "switchyard_xds_"+name {
				m := f.GetMetric()[0]
				value = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return value
	}
	eventually(t, "the refusal counts", func() bool { return measured("refusing_streams") == 1 })
	for name, least := range map[string]float64{
		"streams": 1, "pushes_total": 2, "sent_bytes_total": 500, "acks_total": 1, "nacks_total": 1,
		"change_sent_seconds": 1, "change_acked_seconds": 1, "turn_seconds": 2,
	} {
		if got := measured(name); got < least {
			t.Errorf("%s is %v, want at least %v", name, got, least)
		}
	}
	client.Close()
	eventually(t, "the stream is gone", func() bool { return measured("streams") == 0 && measured("refusing_streams") == 0 })
}
