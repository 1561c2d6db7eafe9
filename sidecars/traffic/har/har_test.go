package har_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"pgregory.net/rapid"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/har"
	"switchyard.dev/tests/golden"
)

// schema returns the JSON Schema of HAR 1.2: testdata has the files of the npm package har-schema 2.0.0.
func schema(t *testing.T) *validate.SchemaValidator {
	t.Helper()
	text, err := os.ReadFile("testdata/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var files map[string]any
	if err := json.Unmarshal(text, &files); err != nil {
		t.Fatal(err)
	}
	var whole func(any) any
	whole = func(of any) any {
		switch v := of.(type) {
		case map[string]any:
			if ref, is := v["$ref"].(string); is {
				return whole(files[strings.TrimSuffix(ref, "#")])
			}
			out := map[string]any{}
			for name, one := range v {
				if name != "$id" && name != "$schema" {
					out[name] = whole(one)
				}
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i, one := range v {
				out[i] = whole(one)
			}
			return out
		}
		return of
	}
	text, err = json.Marshal(whole(files["har.json"]))
	if err != nil {
		t.Fatal(err)
	}
	var s spec.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return validate.NewSchemaValidator(&s, nil, "", strfmt.Default)
}

func archive(all ...*trafficv1.Exchange) []byte {
	var b bytes.Buffer
	w := har.New(&b, "v1.0")
	for _, x := range all {
		_ = w.Add(x) // a buffer
	}
	_ = w.End("seen 2, stored 1, lost 1 (restart)")
	return b.Bytes()
}

func headers(of ...string) (out []*trafficv1.Header) {
	for i := 0; i < len(of); i += 2 {
		out = append(out, &trafficv1.Header{Name: of[i], Value: of[i+1]})
	}
	return out
}

func message(body string, recorded int, of ...string) *trafficv1.Message {
	sum := sha256.Sum256([]byte(body))
	return &trafficv1.Message{Headers: headers(of...), Body: []byte(body[:recorded]), BodySize: uint64(len(body)), BodySha256: sum[:]}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func exchange(id, method, target string, request, response *trafficv1.Message) *trafficv1.Exchange {
	request.Method, request.Target, request.Authority = method, target, "customer.shop:8081"
	if response != nil && response.Status == 0 {
		response.Status = 200
	}
	return &trafficv1.Exchange{
		Id: id, Pod: "customer-fork-1", Port: 8081, Began: timestamppb.New(time.Date(2026, 11, 30, 14, 3, 0, 120_000_000, time.UTC)),
		ToHeaders: durationpb.New(1500 * time.Microsecond), ToEnd: durationpb.New(2 * time.Millisecond), Request: request, Response: response, Protocol: "HTTP/1.1", RoutingKey: "alice",
	}
}

func exchanges() []*trafficv1.Exchange {
	get := exchange("get", "GET", "/c%2Fd/ü?id=1&q=a+b&flag", message("", 0, "accept", "*/*"), message(`{"id":1}`, 8, "content-type", "application/json"))
	get.Request.Elided, get.Response.Elided = []string{"authorization", "cookie"}, []string{"set-cookie", "$.card"}
	cut := exchange("cut", "POST", "/upload", message("0123456789", 4, "content-type", "text/plain"), message(strings.Repeat("\x00", 9), 3))
	missing := exchange("missing", "PUT", "*", message("\xff", 1), nil)
	missing.Problem = "reset by the application"
	partly := exchange("partly", "GET", "http://other.example/absolute", message("", 0), message("half", 4, "content-length", "8"))
	partly.Problem = "reset by the application"
	packed := exchange("packed", "GET", "/packed", message("", 0), message(zipped("plain text"), len(zipped("plain text")), "content-encoding", "gzip", "content-type", "text/plain"))
	brotli := exchange("brotli", "GET", "/brotli", message("", 0), message("\x8b\x00", 2, "content-encoding", "br"))
	grpc := exchange("grpc", "POST", "/shop.Customer/Get", message("\x00\x00\x00\x00\x00", 5, "content-type", "application/grpc"), message("\x00\x00\x00\x00\x00", 5))
	grpc.Protocol, grpc.Response.Trailers = "grpc", headers("grpc-status", "0")
	moved := exchange("moved", "GET", "/", message("", 0), message("", 0, "location", "/new"))
	moved.Response.Status, moved.Overridden, moved.Protocol = 302, true, "HTTP/2"
	socket := exchange("socket", "GET", "/ws", message("", 0), message("", 0))
	socket.Protocol, socket.Response.Status = "websocket", 101
	return []*trafficv1.Exchange{get, cut, missing, partly, packed, brotli, grpc, moved, socket}
}

func TestAnArchive(t *testing.T) {
	var got bytes.Buffer
	if err := json.Indent(&got, archive(exchanges()...), "", " "); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/archive.har", got.String())
}

// valid returns why a text is no archive.
func valid(v *validate.SchemaValidator, text []byte) error {
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	return errors.Join(v.Validate(document).Errors...)
}

func TestTheSchemaOfHAR(t *testing.T) {
	v := schema(t)
	for name, text := range map[string][]byte{"all": archive(exchanges()...), "none": archive()} {
		if err := valid(v, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := string(archive(exchanges()...))
	for what, wrong := range map[string]string{ // The schema is read: these are no archives.
		"a missing field": strings.Replace(whole, `"redirectURL"`, `"redirect"`, 1), "another type": strings.Replace(whole, `"bodySize":10`, `"bodySize":"10"`, 1),
		"no URL": strings.Replace(whole, `"http://customer.shop:8081/upload"`, `"::"`, 1), "no time": strings.Replace(whole, `"2026-11-30T14:03:00.12Z"`, `"now"`, 1),
	} {
		if wrong == whole || valid(v, []byte(wrong)) == nil {
			t.Errorf("%s is valid", what)
		}
	}
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "/", "*", "http://", "a b", "?", "%zz", "//x", "[::1", "é\x00"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		x := exchange("x", text.Draw(t, "method"), text.Draw(t, "target")+"?"+text.Draw(t, "query"), message(text.Draw(t, "body"), 0), message("", 0, text.Draw(t, "name"), text.Draw(t, "value")))
		x.Request.Authority = text.Draw(t, "host")
		if err := valid(v, archive(x)); err != nil {
			t.Fatal(err)
		}
	})
}

// An archive has the recorded bytes of bodies.
func TestBodiesAreRead(t *testing.T) {
	var read struct {
		Log struct {
			Entries []struct {
				Request struct {
					PostData struct {
						Text     string
						Encoding string `json:"_encoding"`
					}
				}
				Response struct {
					Content struct{ Text, Encoding string }
				}
			}
		}
	}
	if err := json.Unmarshal(archive(exchanges()...), &read); err != nil {
		t.Fatal(err)
	}
	plain := func(text, encoding string) string {
		if encoding == "" {
			return text
		}
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	for i, x := range exchanges() {
		e, want := read.Log.Entries[i], string(x.GetResponse().GetBody())
		if x.GetId() == "packed" {
			want = "plain text"
		}
		if got := plain(e.Response.Content.Text, e.Response.Content.Encoding); got != want {
			t.Errorf("%s: the response has %q", x.GetId(), got)
		}
		if got := plain(e.Request.PostData.Text, e.Request.PostData.Encoding); got != string(x.GetRequest().GetBody()) {
			t.Errorf("%s: the request has %q", x.GetId(), got)
		}
	}
}

// A body that becomes large when it is decoded stays as it was sent.
func TestALargeBodyIsNotDecoded(t *testing.T) {
	bomb := zipped(strings.Repeat("\x00", 5<<20))
	text := archive(exchange("bomb", "GET", "/", message("", 0), message(bomb, len(bomb), "content-encoding", "gzip")))
	if len(text) > 64<<10 || !bytes.Contains(text, []byte("as sent, in gzip")) {
		t.Errorf("the archive has %d bytes", len(text))
	}
}

type full struct{}

var errFull = errors.New("the disk is full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestAFailedWrite(t *testing.T) {
	w := har.New(full{}, "v1.0")
	if err := w.Add(exchanges()[0]); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if err := w.End(""); !errors.Is(err, errFull) {
		t.Error(err)
	}
}
