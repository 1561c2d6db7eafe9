package routing

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/server"
)

const apiPath = "/api/switchyard/v1/"

func TestAWatchOverHTTPIsOneObjectToALineAsItHappens(t *testing.T) {
	w := newWorld(t)
	w.State(&factv1.Complete{}, observe("shop", "w1", "Deployment", "customer", 8080))
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, a.url(apiPath+"watch?filter.routingKey=k1"), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "application/x-ndjson" {
		t.Fatalf("%d of %q", res.StatusCode, kind)
	}
	body := bufio.NewReader(res.Body)
	next := func() *routingv1.WatchResponse {
		t.Helper()
		line, err := body.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Result, Error json.RawMessage }
		if err := json.Unmarshal(line, &got); err != nil || got.Error != nil {
			t.Fatalf("%v: %s", err, line)
		}
		m := &routingv1.WatchResponse{}
		if err := protojson.Unmarshal(got.Result, m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := next(); !m.GetReset_() || !m.GetSynced() {
		t.Errorf("a watch begins with %v", m)
	}
	// Each is read before the next is made: nothing waits in a buffer.
	for range 20 {
		w.State(declare("k1", member("shop", "w1", "sb1")))
		if m := next(); len(m.GetChanges()) != 1 || m.GetChanges()[0].GetNew() == nil {
			t.Fatalf("got %v", m)
		}
		w.State(&factv1.RoutingWithdrawn{RoutingKey: "k1"})
		if m := next(); len(m.GetChanges()) != 1 || m.GetChanges()[0].GetNew() != nil {
			t.Fatalf("got %v", m)
		}
	}
	// The end of the server is the last line.
	go a.stop()
	line, err := body.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, `{"error":`) || !strings.Contains(line, "STOPPING") {
		t.Errorf("the last line is %q, %v", line, err)
	}
}

func TestCallsWithoutHTTPMethodAreReported(t *testing.T) {
	w := newWorld(t)
	w.State(&factv1.Complete{})
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		code               codes.Code
		says               string
	}{
		"a parameter that is misspelt":      {"GET", "table?filter.routingkey=k1", "", 400, codes.InvalidArgument, `no parameter \"filter.routingkey\": did you mean filter.routingKey?`},
		"a parameter below a plain one":     {"GET", "lookup?routingKey.x=k1", "", 400, codes.InvalidArgument, "no parameter"},
		"a parameter given twice":           {"GET", "lookup?routingKey=k1&routingKey=k2", "", 400, codes.InvalidArgument, "too many values"},
		"a number that is none":             {"GET", "table?pageSize=many", "", 400, codes.InvalidArgument, "page_size"},
		"a body that is no JSON":            {"POST", "explain", "{", 400, codes.InvalidArgument, "unexpected"},
		"a body with a field not known":     {"POST", "explain", `{"place": "x"}`, 400, codes.InvalidArgument, "place"},
		"a body that is too large":          {"POST", "dry-run", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, codes.InvalidArgument, "too large"},
		"another method":                    {"POST", "lookup", "", 405, codes.Unimplemented, "openapi.json"},
		"a path of nothing":                 {"GET", "nothing", "", 404, codes.Unimplemented, "openapi.json"},
		"the sandbox with both cases works": {"GET", "table?filter.routing_key=k1&pageSize=1", "", 200, codes.OK, "hash"},
	} {
		t.Run(name, func(t *testing.T) {
			got, header, body := a.get(c.method, apiPath+c.path, c.body)
			if got != c.status || !strings.Contains(body, c.says) || header.Get("Content-Type") != "application/json" {
				t.Errorf("%d of %q, %s", got, header.Get("Content-Type"), body)
			}
			var is struct{ Code codes.Code }
			if err := json.Unmarshal([]byte(body), &is); err != nil || is.Code != c.code {
				t.Errorf("it is %v with code %v: %s", err, is.Code, body)
			}
			if c.code == codes.InvalidArgument && !strings.Contains(body, `"reason":"INVALID_REQUEST"`) {
				t.Errorf("it gives no reason: %s", body)
			}
		})
	}
}

func TestTheOpenAPIDocumentDescribesTheServedAPI(t *testing.T) {
	w := newWorld(t)
	w.State(&factv1.Complete{})
	a := runServer(t, server.Config{Log: w.reader})
	w.settle(a)
	status, header, body := a.get("GET", "/openapi.json", "")
	var doc struct {
		Swagger string
		Info    struct{ Title, Version, Description string }
		Paths   map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || status != http.StatusOK || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v: %d of %q", err, status, header.Get("Content-Type"))
	}
	if doc.Swagger != "2.0" || doc.Info.Title != "Switchyard routing API" || doc.Info.Version != "v1" || doc.Info.Description == "" {
		t.Errorf("it says of itself: %+v", doc.Info)
	}
	if len(doc.Paths) != len(routingv1.Routing_ServiceDesc.Methods)+len(routingv1.Routing_ServiceDesc.Streams) {
		t.Errorf("it has %d paths", len(doc.Paths))
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			switch path {
			case apiPath + "watch", apiPath + "log": // these go on; their tests are others
				continue
			}
			if got, _, body := a.get(strings.ToUpper(method), path, ""); got == http.StatusNotFound || got == http.StatusMethodNotAllowed || got == http.StatusNotImplemented {
				t.Errorf("%s %s gives %d: %s", method, path, got, body)
			}
		}
	}
	for _, path := range []string{"/", "/api", "/api/", apiPath} {
		status, header, body := a.get("GET", path, "")
		if status != http.StatusOK || !strings.Contains(body, "/openapi.json") || !strings.Contains(header.Get("Link"), "service-desc") {
			t.Errorf("GET %s: %d, %q, %s", path, status, header.Get("Link"), body)
		}
	}
}

func TestHealthAndReflectionCoverBothAPIs(t *testing.T) {
	w := newWorld(t)
	w.State(declare("k1", member("shop", "w1", "sb1")))
	a := runServer(t, server.Config{Log: w.reader})
	names := []string{"routes.Routes", "switchyard.routing.v1.Routing", ""}
	check := func(name string) healthv1.HealthCheckResponse_ServingStatus {
		t.Helper()
		got, err := healthv1.NewHealthClient(a.conn).Check(within(t), &healthv1.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		return got.GetStatus()
	}
	for _, name := range names {
		if got := check(name); got != healthv1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%q is %v before there is a whole table", name, got)
		}
	}
	w.State(&factv1.Complete{})
	for _, name := range names {
		eventually(t, name+" is healthy", func() bool { return check(name) == healthv1.HealthCheckResponse_SERVING })
	}
	stream, err := reflectionv1.NewServerReflectionClient(a.conn).ServerReflectionInfo(within(t))
	if err == nil {
		err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"": true}
	for _, s := range got.GetListServicesResponse().GetService() {
		listed[s.GetName()] = true
	}
	for _, name := range names {
		if !listed[name] {
			t.Errorf("reflection does not tell of %q: %v", name, listed)
		}
	}
}
