package interpreter_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/interpreter"
)

// application answers as the applications of published examples do.
func application(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // of a test
		user, password, _ := r.BasicAuth()
		out.Header().Set("X-Method", r.Method)
		out.Header().Set("X-Auth", user+":"+password)
		out.Header().Set("Set-Cookie", "canary-cookie")
		out.Header().Set("X-Secret", "canary-header")
		switch r.URL.Path {
		case "/items":
			_ = json.NewEncoder(out).Encode(map[string]any{"name": "jane", "size": 10, "query": r.URL.RawQuery, "header": r.Header.Get("X-My-Header")})
		case "/orders":
			out.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(out).Encode(map[string]any{"order": json.RawMessage(body)})
		case "/notes", "/echo":
			_, _ = out.Write(body)
		case "/moved":
			http.Redirect(out, r, "/items", http.StatusFound)
		case "/trace":
			_, _ = io.WriteString(out, r.Header.Get("Traceparent"))
		default:
			http.NotFound(out, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// run runs a script beside an application; change sets other settings.
func run(t *testing.T, app *httptest.Server, script string, change ...func(*smarttest.Settings)) *smarttest.Result {
	t.Helper()
	r := smarttest.Request{Name: "test", Script: strings.ReplaceAll(script, "@URL@", app.URL), Settings: smarttest.Settings{
		Limits: smarttest.Defaults(), Allowed: []netip.AddrPort{netip.MustParseAddrPort(app.Listener.Addr().String())}}}
	for _, f := range change {
		f(&r.Settings)
	}
	lines, out := io.Pipe()
	go func() { _ = out.CloseWithError(interpreter.Run(r, out)) }()
	result := smarttest.ResultOf(smarttest.Test{Name: "test"})
	for read := json.NewDecoder(lines); ; {
		var e smarttest.Event
		if err := read.Decode(&e); err == io.EOF { //nolint:errorlint // as it returns it
			return result
		} else if err != nil {
			t.Fatal(err)
		}
		result.Add(e)
	}
}

func published(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata/published", name+".star"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestPublishedFormsRun(t *testing.T) {
	app := application(t)
	files, err := filepath.Glob("testdata/published/*.star")
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	failing := map[string][]string{"checks": {"has-absent", "has-missing", "user-ok"}}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".star")
		result := run(t, app, published(t, name))
		var failed []string
		for _, c := range result.Checks {
			if len(c.Errors) > 0 {
				failed = append(failed, c.Name)
			}
		}
		if result.Reason != smarttest.Completed || !slices.Equal(failed, failing[name]) || result.Passed != (len(failed) == 0) || len(result.Checks) == 0 {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

func TestChecksAreReportedInOrderWithTheirErrors(t *testing.T) {
	result := run(t, application(t), published(t, "checks"))
	got, err := json.MarshalIndent(result.Checks, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"has-name"},{"name":"has-size"},
		{"name":"has-absent","errors":[{"message":"missing absent","sourcePosition":{"line":7,"col":17}}]},
		{"name":"has-missing","errors":[{"message":"missing missing","sourcePosition":{"line":7,"col":17}}]},
		{"name":"user-ok","errors":[{"message":"unexpected name jane","attrs":{"tries":[1,2],"user":"joe"},"sourcePosition":{"line":12,"col":17}}]},
		{"name":"pass"}]`
	if !equal(t, got, []byte(want)) {
		t.Errorf("%s", got)
	}
}

func equal(t *testing.T, a, b []byte) bool {
	t.Helper()
	var texts [2]string
	for i, content := range [][]byte{a, b} {
		var value any
		if err := json.Unmarshal(content, &value); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return texts[0] == texts[1]
}

func TestCallsAreNumberedAndCaptured(t *testing.T) {
	app := application(t)
	result := run(t, app, `
http.get("@URL@/absent")
_, err = http.try_get("@URL@:no-port")
print(err)
http.post("@URL@/moved", json_body={"a": 1}, headers={"Authorization": "canary-token", "X-Secret": "canary-header", "X-Kept": "kept"}, capture=True, name="moved")
print(http.get("@URL@/trace", capture=True, name="trace").body())
http.call("get", "@URL@/items", None, {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, capture=True)
http.get("@URL@/moved", allow_redirects=False)
`, func(s *smarttest.Settings) { s.Elided, s.Traces = []string{"x-secret"}, "0123456789abcdef" })
	if result.Reason != smarttest.Completed {
		t.Fatalf("%+v", result)
	}
	var got []string
	for i, c := range result.Calls {
		if c.Number != i+1 || c.SourcePosition == nil || (c.Exchange != nil) != c.Captured {
			t.Errorf("call %d: %+v", i, c)
		}
		got = append(got, strings.Join([]string{c.Method, c.Name, http.StatusText(c.Status)}, " "))
	}
	if want := []string{"GET  Not Found", "  ", "POST moved OK", "GET trace OK", "GET  OK", "GET  Found"}; !slices.Equal(got, want) || len(result.Output) == 0 {
		t.Errorf("%q %+v", got, result.Calls[1])
	}
	moved, traced, given := exchange(t, result.Calls[2]), exchange(t, result.Calls[3]), exchange(t, result.Calls[4])
	if moved.Request.Method != "POST" || moved.Request.Target != "/moved" || string(moved.Request.Body) != `{"a":1}` || moved.Response.Status != 200 || !strings.Contains(string(moved.Response.Body), "jane") {
		t.Errorf("%v", moved)
	}
	if !slices.Equal(moved.Request.Elided, []string{"Authorization", "X-Secret"}) || !slices.Equal(moved.Response.Elided, []string{"Set-Cookie", "X-Secret"}) || !strings.Contains(moved.String(), "kept") {
		t.Errorf("elided %q and %q", moved.Request.Elided, moved.Response.Elided)
	}
	if content, err := json.Marshal(result); err != nil || strings.Contains(string(content), "canary") {
		t.Errorf("a secret is in the result: %s %v", content, err)
	}
	for _, id := range []string{moved.TraceId, traced.TraceId} {
		if len(id) != 32 || !strings.HasPrefix(id, "0123456789abcdef") {
			t.Errorf("trace %q does not begin as the settings state", id)
		}
	}
	if !strings.Contains(result.Output, traced.TraceId) || given.TraceId != "0af7651916cd43dd8448eb211c80319c" || moved.TraceId == traced.TraceId {
		t.Errorf("traces %q, %q, %q; the server got %q", moved.TraceId, traced.TraceId, given.TraceId, result.Output)
	}
}

func exchange(t *testing.T, c smarttest.Call) *trafficv1.Exchange {
	t.Helper()
	e := &trafficv1.Exchange{}
	if err := protojson.Unmarshal(c.Exchange, e); err != nil {
		t.Fatalf("call %d: %v", c.Number, err)
	}
	return e
}

func TestAFunctionThatFailsFailsItsCheckAlone(t *testing.T) {
	result := run(t, application(t), `
def broken(ck):
    {}["missing"]
def passes(ck):
    pass
def reports(ck):
    ck.error("seen by {}", ck.name)
for name, f in [("broken", broken), ("passes", passes), ("reports", reports)]:
    smart_test.check(name, f)
`)
	if result.Reason != smarttest.Completed || len(result.Checks) != 3 {
		t.Fatalf("%+v", result)
	}
	for i, want := range []string{`key "missing" not in dict`, "", "seen by reports"} {
		got := ""
		for _, e := range result.Checks[i].Errors {
			got += e.Message
		}
		if got != want {
			t.Errorf("check %d has %q, want %q", i, got, want)
		}
	}
}

func TestScriptsEndWithAPositionAndWhatTheyReportedBefore(t *testing.T) {
	for script, want := range map[string]smarttest.End{
		"x = 1\nfail(\"why\")":     {Reason: smarttest.ScriptFailed, Message: "fail: why", SourcePosition: &smarttest.Position{Line: 2, Col: 5}},
		"smart_test.check(1)":      {Reason: smarttest.ScriptFailed, Message: "smart_test.check: the first argument is no string", SourcePosition: &smarttest.Position{Line: 1, Col: 17}},
		"smart_test.check(\"{}\")": {Reason: smarttest.ScriptFailed, Message: "smart_test.check: format: tuple index out of range", SourcePosition: &smarttest.Position{Line: 1, Col: 17}},
		"smart_test.check(\"\")":   {Reason: smarttest.ScriptFailed, Message: "smart_test.check: the name is empty", SourcePosition: &smarttest.Position{Line: 1, Col: 17}},
		"x = (":                    {Reason: smarttest.ScriptInvalid, Message: "test:1:6: got end of file, want primary expression"},
		"x = y":                    {Reason: smarttest.ScriptInvalid, Message: "test:1:5: undefined: y"},
		"http.get(\"@URL@/items\", capture=\"yes\")": {Reason: smarttest.ScriptFailed, Message: "http.get: for parameter \"capture\": got string, want bool", SourcePosition: &smarttest.Position{Line: 1, Col: 9}},
	} {
		result := run(t, application(t), script)
		result.Steps = 0
		a, _ := json.Marshal(result.End) // plain values
		b, _ := json.Marshal(want)
		if !equal(t, a, b) {
			t.Errorf("%s: %s, want %s", script, a, b)
		}
	}
	result := run(t, application(t), "smart_test.check(\"a\").error(\"b\")\nprint(\"c\")\nhttp.get(\"@URL@/items\")\nfail(\"d\")")
	if len(result.Checks) != 1 || result.Output != "c\n" || len(result.Calls) != 1 || result.Passed {
		t.Errorf("%+v", result)
	}
}

func TestTheTimeoutOfAModuleIsThatOfItsCalls(t *testing.T) {
	result := run(t, application(t), `
print(http.get_timeout())
http.set_timeout(7)
print(http.get_timeout(), http.get("@URL@/items").ok)
print(http.try_get("@URL@/items", timeout=-1)[1])
`)
	if !strings.HasPrefix(result.Output, "30.0\n7.0 True\n") || result.Reason != smarttest.Completed {
		t.Errorf("%+v", result)
	}
}
