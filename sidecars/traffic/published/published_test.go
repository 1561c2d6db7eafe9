package published_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/tests/golden"
)

func headers(of ...string) (out []*trafficv1.Header) {
	for i := 0; i < len(of); i += 2 {
		out = append(out, &trafficv1.Header{Name: of[i], Value: of[i+1]})
	}
	return out
}

// message is a request or a response with a body of which the first bytes are recorded.
func message(body string, recorded int, of ...string) *trafficv1.Message {
	sum := sha256.Sum256([]byte(body))
	return &trafficv1.Message{Headers: headers(of...), Body: []byte(body[:recorded]), BodySize: uint64(len(body)), BodySha256: sum[:]}
}

// exchanges are one of each sort.
func exchanges() map[string]*trafficv1.Exchange {
	began := timestamppb.New(time.Date(2026, 11, 30, 14, 3, 0, 120_000_000, time.UTC))
	of := func(id, protocol, method, target string, request, response *trafficv1.Message) *trafficv1.Exchange {
		request.Method, request.Target, request.Authority = method, target, "Customer.shop:8081"
		return &trafficv1.Exchange{
			Id: id, Pod: "customer-fork-1", Port: 8081, Began: began, ToHeaders: durationpb.New(1500 * time.Microsecond), ToEnd: durationpb.New(2 * time.Millisecond),
			Request: request, Response: response, Protocol: protocol, RoutingKey: "alice",
		}
	}
	answer := func(status uint32, m *trafficv1.Message) *trafficv1.Message { m.Status = status; return m }
	get := of("get", "HTTP/1.1", "GET", "/customer?id=1", message("", 0, "user-agent", "curl/8", "accept", "*/*"), answer(200, message(`{"id":1}`, 8, "content-type", "application/json", "content-length", "8")))
	get.Request.Elided = []string{"authorization", "cookie"}
	cut := of("cut", "HTTP/2", "POST", "/upload", message("0123456789", 4), answer(413, message("too large", 3, "content-length", "9")))
	missing := of("missing", "HTTP/1.1", "PUT", "/slow", message("x", 1, "content-length", "1"), nil)
	missing.Problem = "reset by the application"
	grpc := of("grpc", "grpc", "POST", "/shop.Customer/Get", message("\x00\x00\x00\x00\x02ab", 7, "content-type", "application/grpc"), answer(200, message("\x00\x00\x00\x00\x01c", 6, "content-type", "application/grpc")))
	grpc.Response.Trailers = headers("grpc-status", "0", "grpc-message", "")
	socket := of("websocket", "websocket", "GET", "/ws", message("\x81\x02hi", 4, "sec-websocket-version", "13"), answer(101, message("\x81\x02ho", 4)))
	socket.Overridden = true
	head := of("head", "HTTP/1.1", "HEAD", "/customer", message("", 0), answer(200, message("", 0, "content-length", "300")))
	return map[string]*trafficv1.Exchange{"get": get, "cut": cut, "missing": missing, "grpc": grpc, "websocket": socket, "head": head}
}

// visible returns a symbol for a control character.
func visible(r rune) rune {
	if r < ' ' && r != '\n' {
		return '␀' + r
	}
	return r
}

func TestTheFilesOfARequest(t *testing.T) {
	for name, x := range exchanges() {
		t.Run(name, func(t *testing.T) {
			m := published.MetaOf(x, "ForkedWorkload/shop/customer-alice")
			got := "== meta.json\n" + string(m.File()) + "== request\n" + string(published.Request(x)) + "\n== response\n" + string(published.Response(x)) + "\n"
			golden.Compare(t, filepath.Join("testdata", name+".txt"), strings.Map(visible, strings.ReplaceAll(got, "\x81", "\\x81")))
			document, err := m.Document()
			if err != nil {
				t.Fatal(err)
			}
			fromYAML, err := yaml.YAMLToJSON(document)
			if line := string(m.Line()); err != nil || strings.Count(line, "\n") != 1 || !equal(t, []byte(line), m.File()) || !equal(t, fromYAML, m.File()) {
				t.Errorf("the record is %s and %s, %v", line, document, err)
			}
		})
	}
}

func equal(t *testing.T, a, b []byte) bool {
	t.Helper()
	var one, other any
	if err := json.Unmarshal(a, &one); err != nil {
		t.Error(err)
	}
	if err := json.Unmarshal(b, &other); err != nil {
		t.Error(err)
	}
	x, _ := json.Marshal(one)
	y, _ := json.Marshal(other)
	return bytes.Equal(x, y)
}

// Another implementation of HTTP reads each file to its end: the recorded bytes of the body, and all headers.
func TestAParserReadsTheFiles(t *testing.T) {
	for name, x := range exchanges() {
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(published.Request(x))))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(request.Body)
		raw := x.GetResponse().GetStatus() == http.StatusSwitchingProtocols // No body: the connection goes on.
		if err != nil || !raw && string(body) != string(x.GetRequest().GetBody()) || request.Host != "Customer.shop:8081" || request.RequestURI != x.GetRequest().GetTarget() {
			t.Errorf("%s: request %+v with body %q, %v", name, request, body, err)
		}
		if x.GetResponse() == nil {
			continue
		}
		response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(published.Response(x))), request)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err = io.ReadAll(response.Body)
		if err != nil || !raw && string(body) != string(x.GetResponse().GetBody()) || response.StatusCode != int(x.GetResponse().GetStatus()) {
			t.Errorf("%s: response %+v with body %q, %v", name, response, body, err)
		}
		for _, h := range x.GetResponse().GetTrailers() {
			if values := response.Trailer.Values(h.GetName()); len(values) != 1 || values[0] != h.GetValue() {
				t.Errorf("%s: the trailers are %v", name, response.Trailer)
			}
		}
	}
}

// A response that ended early keeps the length that it has announced, so that no parser takes it for whole.
func TestAResponseThatIsNotWhole(t *testing.T) {
	x := &trafficv1.Exchange{Request: &trafficv1.Message{Method: "GET", Target: "/"}, Response: message("half", 4, "content-length", "8"), Problem: "reset"}
	x.Response.Status = 200
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(published.Response(x))), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(response.Body); err != io.ErrUnexpectedEOF || string(body) != "half" {
		t.Errorf("its body is %q, %v", body, err)
	}
}

// Headers, methods and targets add no lines, whatever they contain.
func TestNoValueAddsALine(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"a\r\nb: c", "\n\n", "\x00", "a b", "é", "x:y", ""}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		m := &trafficv1.Message{Method: text.Draw(t, "method"), Target: text.Draw(t, "target"), Authority: text.Draw(t, "host"), Headers: headers(text.Draw(t, "name"), text.Draw(t, "value"))}
		head := string(published.Request(&trafficv1.Exchange{Request: m}))
		lines := strings.Split(head, "\r\n")
		want := 5 // the request line, Host, the header, and the end
		if strings.EqualFold(m.Headers[0].GetName(), "host") {
			want = 4
		}
		if len(lines) != want || strings.Count(head, "\n") != want-1 || strings.Count(lines[0], " ") != 2 || strings.ContainsRune(head, 0) {
			t.Fatalf("%q", head)
		}
	})
}

// The folder of a request is in the folder of the recording, and has the name of the request.
func TestFolders(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for id, good := range map[string]bool{
		"2b1f0c6e-5d5b-4b7e-9d3e-8b7d0d3c2a11": true, "Q7x_K2p": true, strings.Repeat("a", 128): true,
		"": false, ".": false, "..": false, "a/b": false, "../a": false, `a\b`: false, "C:": false, "-rf": false, "a\x00": false, "é": false, "a b": false, "meta.jsons": false, strings.Repeat("a", 129): false,
	} {
		name, err := published.Folder(id)
		if (err == nil) != good || good && name != id {
			t.Errorf("%q: %q, %v", id, name, err)
		}
		if err == nil {
			err = root.Mkdir(name, 0o700)
		}
		if good && err != nil {
			t.Error(err)
		}
	}
}
