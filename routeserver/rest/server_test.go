package rest_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/rest"
	"switchyard.dev/routeserver/table"
)

const path = "/api/v1/workloads/routing-rules"

const customer = `{"routingKey":"k1","baseline":{"kind":"Deployment","namespace":"shop","name":"customer"},"destinationSandbox":{"name":"sb1"},` +
	`"mappings":[{"workloadPort":8080,"destinations":[{"host":"sb-customer.shop.svc","port":80}]}]}`

const driver = `{"routingKey":"k2","baseline":{"kind":"Deployment","namespace":"shop","name":"driver"},"destinationSandbox":{"name":"sb2"},"mappings":[]}`

func TestAnswers(t *testing.T) {
	full := apply(table.Table{},
		declare("k1", "customer", "sb1"), observe("customer", "sb-customer"), declare("k2", "driver", "sb2"), observe("driver", ""), &factv1.Complete{})
	for name, c := range map[string]struct {
		table        table.Table
		method, path string
		status       int
		body         string
	}{
		"all rules":                             {full, "GET", path, 200, `{"routingRules":[` + customer + `,` + driver + `]}`},
		"an empty table gives an empty list":    {apply(table.Table{}, &factv1.Complete{}), "GET", path, 200, `{"routingRules":[]}`},
		"the older path has both names":         {full, "GET", "/api/v1/workloads/routes?routingKey=k1", 200, `{"routes":[` + customer + `],"routingRules":[` + customer + `]}`},
		"by kind":                               {full, "GET", path + "?baselineKind=ArgoRollout", 200, `{"routingRules":[]}`},
		"by namespace":                          {full, "GET", path + "?baselineNamespace=other", 200, `{"routingRules":[]}`},
		"by name":                               {full, "GET", path + "?baselineName=driver", 200, `{"routingRules":[` + driver + `]}`},
		"by key":                                {full, "GET", path + "?routingKey=k1", 200, `{"routingRules":[` + customer + `]}`},
		"by sandbox":                            {full, "GET", path + "?destinationSandboxName=sb2", 200, `{"routingRules":[` + driver + `]}`},
		"filters combine":                       {full, "GET", path + "?destinationSandboxName=sb2&routingKey=k1", 200, `{"routingRules":[]}`},
		"all filters":                           {full, "GET", path + "?baselineKind=Deployment&baselineNamespace=shop&baselineName=driver&routingKey=k2&destinationSandboxName=sb2", 200, `{"routingRules":[` + driver + `]}`},
		"empty filters do not narrow":           {full, "GET", path + "?baselineKind=&routingKey=k1&destinationSandboxName=", 200, `{"routingRules":[` + customer + `]}`},
		"parameters of later editions":          {full, "GET", path + "?enableVirtualWorkloads=true&routingKey=k1", 200, `{"routingRules":[` + customer + `]}`},
		"any other name":                        {full, "GET", path + "?pretty=1&v=2&baseline=x&routingKey=k1", 200, `{"routingRules":[` + customer + `]}`},
		"a name in another case":                {full, "GET", path + "?routingkey=k1", 400, `there is no query parameter "routingkey": did you mean routingKey?`},
		"a name with underscores":               {full, "GET", path + "?destination_sandbox_name=sb1", 400, `there is no query parameter "destination_sandbox_name": did you mean destinationSandboxName?`},
		"a name with two letters wrong":         {full, "GET", path + "?baselneNamespaec=shop", 400, `there is no query parameter "baselneNamespaec": did you mean baselineNamespace?`},
		"a name of the older path misspelt":     {full, "GET", "/api/v1/workloads/routes?routingKye=k1", 400, `there is no query parameter "routingKye": did you mean routingKey?`},
		"a misspelt name beside the right one":  {full, "GET", path + "?routingKey=k1&routingKeys=k2", 400, `there is no query parameter "routingKeys": did you mean routingKey?`},
		"a cold table":                          {apply(table.Table{}, declare("k1", "customer", "sb1")), "GET", path, 503, "the routing table is not whole yet: try again"},
		"a filter given twice":                  {full, "GET", path + "?routingKey=k1&routingKey=k2", 400, "query parameter routingKey is given 2 times: give it once"},
		"a query that cannot be read":           {full, "GET", path + "?routingKey=%zz", 400, `the query cannot be read: invalid URL escape "%zz"`},
		"another method":                        {full, "POST", path, 405, "Method Not Allowed"},
		"another path":                          {full, "GET", "/api/v1/workloads", 404, "404 page not found"},
		"alive even when cold":                  {table.Table{}, "GET", "/healthz", 200, "ok"},
		"not ready when cold":                   {table.Table{}, "GET", "/readyz", 503, "the routing table is not whole yet: try again"},
		"ready when whole":                      {full, "GET", "/readyz", 200, "ok"},
		"the older path of a cold table is 503": {table.Table{}, "GET", "/api/v1/workloads/routes", 503, "the routing table is not whole yet: try again"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, c.table, httptest.NewRequest(c.method, c.path, nil))
			body := strings.TrimSpace(got.Body.String())
			if got.Code != c.status || body != c.body {
				t.Errorf("got %d %s\nwant %d %s", got.Code, body, c.status, c.body)
			}
			if kind := got.Header().Get("Content-Type"); got.Code >= 400 && (!strings.HasPrefix(kind, "text/plain") || json.Valid([]byte(body))) {
				t.Errorf("a failure of type %q: %s", kind, body)
			}
		})
	}
}

func TestHeadersNameTheTablesVersion(t *testing.T) {
	full := apply(table.Table{}, declare("k1", "customer", "sb1"), observe("customer", "sb-customer"), &factv1.Complete{})
	first := ask(t, full, httptest.NewRequest("GET", path, nil))
	etag := first.Header().Get("ETag")
	if got := first.Header().Get("Switchyard-Table"); got != "e/3" || etag != `"`+full.Hash().String()+`"` {
		t.Errorf("Switchyard-Table %q, ETag %q", got, etag)
	}
	again := httptest.NewRequest("GET", path, nil)
	again.Header.Set("If-None-Match", etag)
	if got := ask(t, full, again); got.Code != http.StatusNotModified || got.Body.Len() != 0 {
		t.Errorf("unchanged: %d %s", got.Code, got.Body)
	}
	changed := apply(full, declare("k1", "customer", "sb2"))
	if got := ask(t, changed, again); got.Code != http.StatusOK || got.Header().Get("Switchyard-Table") != "e/4" {
		t.Errorf("changed: %d, table %q", got.Code, got.Header().Get("Switchyard-Table"))
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	server, err := rest.New(rest.Config{Tables: fixed{}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(ctx, listener); err != nil {
			t.Errorf("Serve ended with %v", err)
		}
	})
	client := http.Client{Timeout: 10 * time.Second}
	got, err := client.Get("http://" + listener.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(got.Body)
	if err != nil || string(body) != "ok\n" {
		t.Errorf("got %q, %v", body, err)
	}
	if err := got.Body.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	wg.Wait()
}

func TestABadConfigIsRefused(t *testing.T) {
	for name, cfg := range map[string]rest.Config{"no tables": {}, "a negative StopWithin": {Tables: fixed{}, StopWithin: -1}} {
		if _, err := rest.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

type fixed struct{ table table.Table }

func (f fixed) Current() (table.Table, <-chan struct{}) { return f.table, nil }

func ask(t *testing.T, of table.Table, req *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	server, err := rest.New(rest.Config{Tables: fixed{of}})
	if err != nil {
		t.Fatal(err)
	}
	got := httptest.NewRecorder()
	server.ServeHTTP(got, req)
	return got
}

func apply(t table.Table, data ...proto.Message) table.Table {
	for _, d := range data {
		t = t.Apply(event.Recorded{Pos: event.Pos{Epoch: "e", Seq: t.Pos().Seq + 1}, Fact: event.Fact{Data: d}})
	}
	return t
}

func declare(routingKey, member, sandbox string) *factv1.RoutingDeclared {
	return &factv1.RoutingDeclared{RoutingKey: routingKey, Members: []*factv1.Member{
		{Kind: "ForkedWorkload", Namespace: "shop", Name: member, Sandbox: sandbox},
	}}
}

// observe returns a workload with one Service, or none when service is empty.
func observe(member, service string) *factv1.WorkloadObserved {
	return &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "shop", Name: member, Uid: "uid"},
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: member},
		Services: []*factv1.ServicePair{{To: service, Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}},
	}
}
