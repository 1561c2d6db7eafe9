package capture_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/capture"
	"switchyard.dev/sidecars/traffic/parse"
	"switchyard.dev/sidecars/traffic/record"
)

// kept has what a Recorder hands on.
type kept struct {
	*capture.Recorder
	all []capture.Finished
}

func recording(t *testing.T, captures ...*trafficv1.Capture) *kept {
	t.Helper()
	k := &kept{}
	k.Recorder = capture.New("incarnation", func(f capture.Finished) { k.all = append(k.all, f) })
	if err := k.Set(captures); err != nil {
		t.Fatal(err)
	}
	return k
}

func of(uid string, bodies uint32) *trafficv1.Capture {
	return &trafficv1.Capture{Uid: uid, Name: uid, BodyBytes: bodies, Sample: 1, Ports: []*trafficv1.Port{{Application: 8080, Listening: 25800}}}
}

// exchange has one exchange over HTTP/1.1 on the listening port of port 8080.
func (k *kept) exchange(request, response string) {
	c := parse.New(k.Observer(25800), &parse.Memory{})
	c.Offer(parse.Request, []byte(request))
	c.Offer(parse.Response, []byte(response))
	c.Close("closed by the client")
}

func request(body string, headers ...string) string {
	return fmt.Sprintf("POST /a?b HTTP/1.1\r\nHost: shop\r\nContent-Length: %d\r\n%s\r\n%s", len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

func response(body string, headers ...string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

func counts(seen, delivered, sampled uint64, lost map[string]uint64) string {
	return fmt.Sprint(&trafficv1.CaptureCounts{CaptureUid: "a", Seen: seen, Delivered: delivered, SampledOut: sampled, Lost: lost})
}

func TestAnExchangeIsCopied(t *testing.T) {
	k := recording(t, of("a", 10))
	body := strings.Repeat("0123456789", 10)
	trace := "4bf92f3577b34da6a3ce929d0e0e4736"
	k.exchange(request(body, "traceparent: 00-"+trace+"-00f067aa0ba902b7-01", "Baggage: sd-routing-key=k1", "X: \xff"), response("short"))
	if len(k.all) != 1 {
		t.Fatalf("%d exchanges", len(k.all))
	}
	x := k.all[0]
	hash := sha256.Sum256([]byte(body))
	if q := x.GetRequest(); q.GetMethod() != "POST" || q.GetTarget() != "/a?b" || q.GetAuthority() != "shop" || string(q.GetBody()) != body[:10] || q.GetBodySize() != 100 || !slices.Equal(q.GetBodySha256(), hash[:]) {
		t.Errorf("the request is %v", q)
	}
	if a := x.GetResponse(); a.GetStatus() != 200 || string(a.GetBody()) != "short" || a.GetBodySize() != 5 {
		t.Errorf("the response is %v", a)
	}
	if x.GetTraceId() != trace || x.GetParentId() != "00f067aa0ba902b7" || x.GetRoutingKey() != "k1" || x.GetPort() != 8080 || x.GetCaptureUid() != "a" ||
		x.GetNumber() != 1 || x.GetIncarnation() != "incarnation" || x.GetProtocol() != "HTTP/1.1" || x.GetProblem() != "" || x.GetId() == "" || x.GetToEnd().AsDuration() <= 0 {
		t.Errorf("it is %v", x.Exchange)
	}
	if b, err := proto.Marshal(x.Exchange); err != nil || len(b) != x.Size || !utf8.ValidString(x.String()) {
		t.Errorf("%d bytes, not %d: %v", len(b), x.Size, err)
	}
	k.Delivered(x)
	k.Lost(x, "late")
	if got := fmt.Sprint(k.Counts("a")[0]); got != counts(1, 1, 0, nil) {
		t.Error(got)
	}
}

// A message with other texts cannot be delivered, and those behind it would wait for it.
func TestTextsAreUTF8(t *testing.T) {
	k := recording(t, of("a", 10))
	k.exchange("GET /\xff HTTP/1.1\r\nHost: \xff\r\nBaggage: sd-routing-key=\xff\r\n\r\n", response("\xff", "Content-Type: \xff"))
	k.exchange("GET / HTTP/1.\xff\r\nHost: h\r\n\r\n", response(""))
	k.exchange(request("", "traceparent: \xff", "\xff: \xff", "Connection: \xff"), "HTTP/1.\xff 200 \xff\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\xff: \xff\r\n\r\n")
	for _, x := range k.all {
		if _, err := proto.Marshal(x.Exchange); err != nil {
			t.Errorf("%v: %v", x.Exchange, err)
		}
	}
	if len(k.all) < 2 {
		t.Errorf("%d exchanges are recorded", len(k.all))
	}
}

func TestSecretsAreNotCopied(t *testing.T) {
	c := of("a", 1<<10)
	c.RequestHeadersElided, c.ResponseHeadersElided, c.JsonPathsElided = []string{"X-Api-Key"}, []string{"x-session"}, []string{"$..password"}
	k := recording(t, c)
	k.exchange(
		request(`{"user":"u","password":"canary"}`, "Authorization: Bearer canary", "cookie: canary", "x-api-key: canary", "Connection: x-hop", "X-Hop: canary"),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: canary\r\nX-Session: canary\r\n\r\n17\r\n[{\"password\":\"canary\"}]\r\n0\r\nX-Session: canary\r\nSum: 1\r\n\r\n")
	b, err := proto.Marshal(k.all[0].Exchange)
	if err != nil || strings.Contains(string(b), "canary") {
		t.Errorf("%v, %v", k.all[0], err)
	}
	if a := k.all[0].GetResponse(); len(a.GetTrailers()) != 1 || a.GetTrailers()[0].GetName() != "Sum" || !slices.Contains(a.GetElided(), "x-session") {
		t.Errorf("the response is %v", a)
	}
}

// Bodies in which null replaces shorter values need more room.
func TestElidedBodiesHaveTheirRoom(t *testing.T) {
	c := of("a", 1<<20)
	c.JsonPathsElided = []string{"$[*]"}
	k := recording(t, c)
	const n = 20
	for range n {
		k.exchange(request("["+strings.Repeat("1,", 1<<19-2)+"1]"), response(""))
	}
	size := 0
	for _, x := range k.all {
		size += x.Size
	}
	if lost := k.Counts("a")[0].GetLost()[record.Budget]; size > record.InFlight || len(k.all) == 0 || lost != uint64(n-len(k.all)) {
		t.Errorf("%d exchanges have %d bytes, and %d are lost", len(k.all), size, lost)
	}
}

func TestCapturesAreIndependent(t *testing.T) {
	none, other := of("none", 5), of("other", 5)
	none.Sample, other.Ports = 0, []*trafficv1.Port{{Application: 8080, Listening: 1}}
	k := recording(t, of("a", 5), of("b", 2), none, other)
	k.exchange(request("hello"), response(""))
	if len(k.all) != 2 || string(k.all[0].GetRequest().GetBody()) != "hello" || string(k.all[1].GetRequest().GetBody()) != "he" || k.all[1].GetCaptureUid() != "b" {
		t.Errorf("%v", k.all)
	}
	if c := k.Counts("none"); c[0].GetSampledOut() != 1 || c[0].GetSeen() != 1 || len(k.Counts("other")) != 0 {
		t.Errorf("%v", k.Counts())
	}
	if err := k.Set(nil); err != nil {
		t.Fatal(err)
	}
	k.exchange(request("hello"), response(""))
	if len(k.all) != 2 || len(k.Counts()) != 3 {
		t.Errorf("after the end %v", k.Counts())
	}
}

// What does not fit is lost, whole, and the room is free again.
func TestBudget(t *testing.T) {
	k := recording(t, of("a", 1<<20))
	large := strings.Repeat("x", 1<<20)
	for range 20 {
		k.exchange(request(large), response("ok"))
	}
	n := uint64(len(k.all))
	if n < 13 || n > 15 || fmt.Sprint(k.Counts("a")[0]) != counts(20, 0, 0, map[string]uint64{record.Budget: 20 - n}) {
		t.Errorf("%d are kept: %v", n, k.Counts("a"))
	}
	for _, x := range k.all {
		k.Delivered(x)
	}
	k.exchange(request(large), response(large))
	if last := k.all[len(k.all)-1]; last.GetNumber() != n+1 {
		t.Errorf("the next has the number %d", last.GetNumber())
	}
}

func TestMessagesOfAWebSocket(t *testing.T) {
	k := recording(t, of("a", 4))
	k.exchange("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n", "HTTP/1.1 101 S\r\nUpgrade: WebSocket\r\n\r\n\x81\x01a\x81\x02bc\x81\x02de")
	x := k.all[0]
	if a := x.GetResponse(); string(a.GetBody()) != "abcd" || a.GetBodySize() != 5 || !slices.Equal(a.GetFrames(), []uint64{1, 3}) || x.GetProtocol() != "websocket" || x.GetProblem() != "closed by the client" {
		t.Errorf("%v", x)
	}
}

func TestConnectionsThatCannotBeReadAreCounted(t *testing.T) {
	k := recording(t, of("a", 4))
	k.exchange(request("x")+"garbage\x00\r\n\r\n", response("ok"))
	if got := fmt.Sprint(k.Counts("a")[0]); got != counts(2, 0, 0, map[string]uint64{record.Unreadable: 1}) || len(k.all) != 1 || k.all[0].GetProblem() == "" {
		t.Errorf("%s, %v", got, k.all)
	}
}

func TestAPathThatIsNotSupported(t *testing.T) {
	bad := of("bad", 1)
	bad.JsonPathsElided = []string{"$[?(@.a)]"}
	k := capture.New("", func(capture.Finished) {})
	if err := k.Set([]*trafficv1.Capture{bad, of("a", 1)}); err == nil || !strings.Contains(err.Error(), "capture bad: ") {
		t.Error(err)
	}
}

// A capture of some keys records their requests, at its share of traces, and counts the others.
func TestACaptureOfKeys(t *testing.T) {
	only, except := of("a", 10), of("b", 10)
	only.Sample, only.Restricted, only.RoutingKeys = 0, 1, []string{"group"}
	except.Sample, except.Restricted, except.ExceptRoutingKeys = 0, 1, []string{"group"}
	k := recording(t, only, except)
	for _, key := range []string{"group", "other", ""} {
		k.exchange(request("x", "Baggage: sd-routing-key="+key), response("y"))
	}
	var got []string
	for _, x := range k.all {
		got = append(got, x.GetCaptureUid()+" "+x.GetRoutingKey())
		k.Delivered(x)
	}
	if want := []string{"a group", "b other", "b "}; !slices.Equal(got, want) {
		t.Errorf("recorded are %q", got)
	}
	if c := k.Counts("a")[0]; c.GetSeen() != 3 || c.GetDelivered() != 1 || c.GetSampledOut() != 2 {
		t.Errorf("%v", c)
	}
}
