package preview_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/preview"
)

// application is a Service that echoes requests, messages of a WebSocket, events and calls of gRPC, and streams until
// the client leaves below /stream. Each has the headers of its request.
func application() http.HandlerFunc {
	calls := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(calls, health.NewServer())
	accepts := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	return func(w http.ResponseWriter, r *http.Request) {
		text, _ := json.Marshal(echoed{Method: r.Method, URI: r.RequestURI, Host: r.Host, Header: r.Header})
		switch {
		case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
			w.Header().Set("X-Request", string(text))
			calls.ServeHTTP(w, r)
		case websocket.IsWebSocketUpgrade(r):
			c, err := accepts.Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer c.Close()
			for c.WriteMessage(websocket.TextMessage, text) == nil {
				if _, _, err := c.ReadMessage(); err != nil {
					return
				}
			}
		case r.Header.Get("Accept") == "text/event-stream":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", text)
			_ = http.NewResponseController(w).Flush()
			if strings.HasPrefix(r.URL.Path, "/stream") {
				<-r.Context().Done()
			}
		default:
			_, _ = w.Write(text)
		}
	}
}

// endpoints makes a sandbox, a route group and a sandbox with a deprecated endpoint, and returns their previews.
func endpoints(s *preview.Site) (urls map[string]string, keys map[string]string) {
	s.Helper()
	host := service(s, "web", application())
	name, port, _ := strings.Cut(host, ":")
	box := s.Sandbox("pr-1", map[string]string{"web": "http://" + host})
	old := s.Apply("pr-2", map[string]any{"cluster": preview.Cluster, "endpoints": []map[string]any{{"name": "web", "host": name, "port": json.Number(port), "protocol": "http"}}})
	s.Ready("pr-2", true, "all is ready")
	if status, text := s.Call(http.MethodPut, "routegroups/team", map[string]any{"spec": map[string]any{
		"cluster": preview.Cluster, "match": map[string]any{"label": map[string]any{"key": "team", "value": "x"}}, "endpoints": []map[string]any{{"name": "web", "target": "http://" + host}},
	}}); status != http.StatusOK {
		s.Fatalf("PUT of the route group: %d %s", status, text)
	}
	group := readyGroup(s, "team")
	return map[string]string{"sandbox": preview.URL("web", "pr-1"), "deprecated endpoint": preview.URL("web", "pr-2"), "route group": preview.URL("web", "team")},
		map[string]string{"sandbox": box.RoutingKey, "deprecated endpoint": old.RoutingKey, "route group": group.RoutingKey}
}

// readyGroup reports that a route group is ready, as the operator does.
func readyGroup(s *preview.Site, name string) (g model.RouteGroup) {
	s.Helper()
	s.Eventually("the route group can be marked as ready", func() error {
		o := &crdv1.SignadotRouteGroup{}
		if err := s.World.Client.Get(s.Context(), client.ObjectKey{Name: name}, o); err != nil {
			return err
		}
		o.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: string(metav1.ConditionTrue), Reason: "Test", ObservedGeneration: o.Generation}}
		return s.World.Client.Status().Update(s.Context(), o)
	})
	s.Eventually("the route group is ready", func() (err error) {
		if g, err = s.Main.Store().RouteGroup(s.Context(), preview.Organisation, name); err == nil && !g.Status.Ready {
			err = fmt.Errorf("it is %+v", g.Status)
		}
		return err
	})
	return g
}

// answered is the answer to a request: what the client sees, and what the application has received if it was forwarded.
type answered struct {
	result string
	header http.Header
	at     *echoed
}

// call sends a request with headers to a preview.
func call(s *preview.Site, method, at string, headers ...string) answered {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, at+"/a?b=c", nil)
	s.Must(err)
	set(r.Header, headers...)
	a, text := send(s, s.Client(false), r)
	out := answered{result: fmt.Sprint(a.StatusCode), header: a.Header}
	if text = strings.TrimPrefix(text, "data: "); a.StatusCode == http.StatusOK {
		e := read(s, text)
		out.at = &e
	}
	return out
}

// socket opens a WebSocket with headers.
func socket(s *preview.Site, at string, headers ...string) (answered, *websocket.Conn) {
	s.Helper()
	d := websocket.Dialer{NetDialContext: s.Dial, TLSClientConfig: &tls.Config{RootCAs: s.Roots}}
	h := http.Header{}
	set(h, headers...)
	c, a, err := d.DialContext(s.Context(), "wss"+strings.TrimPrefix(at, "https")+"/a?b=c", h)
	if a == nil {
		s.Fatal(err)
	}
	out := answered{result: fmt.Sprint(a.StatusCode), header: a.Header}
	if err == nil {
		s.Cleanup(func() { _ = c.Close() })
		_, text, err := c.ReadMessage()
		s.Must(err)
		e := read(s, string(text))
		out.at = &e
	}
	return out, c
}

// dialled returns a connection of gRPC to a preview.
func dialled(s *preview.Site, at string) *grpc.ClientConn {
	s.Helper()
	c, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(at, "https://")+":443", grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(s.Roots, "")), grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return s.Dial(ctx, "tcp", address)
	}))
	s.Must(err)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// rpc calls a method with headers.
func rpc(s *preview.Site, at string, headers ...string) answered {
	s.Helper()
	var answer metadata.MD
	_, err := grpc_health_v1.NewHealthClient(dialled(s, at)).Check(metadata.AppendToOutgoingContext(s.Context(), lower(headers)...), &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&answer))
	out := answered{result: status.Code(err).String()}
	if texts := answer.Get("x-request"); len(texts) > 0 {
		e := read(s, texts[0])
		out.at = &e
	}
	return out
}

// lower returns pairs with names in lower case.
func lower(pairs []string) []string {
	out := slices.Clone(pairs)
	for i := 0; i < len(out); i += 2 {
		out[i] = strings.ToLower(out[i])
	}
	return out
}

// kinds are the rows of the matrix.
var kinds = map[string]func(*preview.Site, string, ...string) answered{
	"page": func(s *preview.Site, at string, headers ...string) answered {
		return call(s, http.MethodGet, at, append(headers, navigation...)...)
	},
	"frame": func(s *preview.Site, at string, headers ...string) answered {
		return call(s, http.MethodGet, at, append(headers, "Accept", "text/html", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site")...)
	},
	"script": func(s *preview.Site, at string, headers ...string) answered {
		return call(s, http.MethodGet, at, append(headers, "Accept", "*/*", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Site", "same-origin")...)
	},
	"write": func(s *preview.Site, at string, headers ...string) answered {
		return call(s, http.MethodPost, at, append(headers, "Accept", "*/*", "Origin", at, "Sec-Fetch-Site", "same-origin")...)
	},
	"preflight": func(s *preview.Site, at string, headers ...string) answered {
		return call(s, http.MethodOptions, at, append(headers, "Accept", "text/html", "Origin", preview.URL("other", "pr-1"), "Access-Control-Request-Method", "PUT")...)
	},
	"OPTIONS": func(s *preview.Site, at string, headers ...string) answered {
		return call(s, http.MethodOptions, at, append(headers, navigation...)...)
	},
	"WebSocket": func(s *preview.Site, at string, headers ...string) answered {
		a, _ := socket(s, at, append(headers, append(navigation, "Origin", at)...)...)
		return a
	},
	"server-sent events": func(s *preview.Site, at string, headers ...string) answered {
		return call(s, http.MethodGet, at, append(headers, "Accept", "text/event-stream")...)
	},
	"gRPC": rpc,
}

// columns are the credentials of the matrix, and answers what each row answers to them.
var columns = []string{"none", "cookie", "expired cookie", "two cookies", "API key", "application's bearer", "cookie and application's bearer"}

var answers = map[string][]string{
	"page":               {"303", "200", "303", "200", "200", "303", "200"},
	"frame":              {"401", "200", "401", "200", "200", "401", "200"},
	"script":             {"401", "200", "401", "200", "200", "401", "200"},
	"write":              {"401", "200", "401", "200", "200", "401", "200"},
	"preflight":          {"200", "200", "200", "200", "200", "200", "200"},
	"OPTIONS":            {"401", "200", "401", "200", "200", "401", "200"},
	"WebSocket":          {"401", "101", "401", "101", "101", "401", "101"},
	"server-sent events": {"401", "200", "401", "200", "200", "401", "200"},
	"gRPC":               {"Unauthenticated", "OK", "Unauthenticated", "OK", "OK", "Unauthenticated", "OK"},
}

// TestMatrix sends each kind of request with each credential to each kind of endpoint.
func TestMatrix(t *testing.T) {
	s := withIssuer(t, nil)
	urls, keys := endpoints(s)
	jo, gone := newBrowser(s), newBrowser(s)
	jo.open(page + "/login/device").login()
	gone.open(page + "/login/device").login()
	expired := map[string]string{}
	for name, at := range urls {
		gone.open(at).want(http.StatusOK, "")
		expired[name] = gone.session(at)
		jo.open(at).want(http.StatusOK, "")
	}
	gone.logout()
	const others, token = "app=1; theme=\"da rk\"", "Bearer application"
	for endpoint, at := range urls {
		cookie := jo.session(at)
		credentials := map[string][]string{
			"none": {"Cookie", others}, "cookie": {"Cookie", others + "; " + cookie}, "expired cookie": {"Cookie", expired[endpoint] + "; " + others}, "two cookies": {"Cookie", expired[endpoint] + "; " + others + "; " + cookie},
			"API key": {"Signadot-Api-Key", preview.Key, "Cookie", others}, "application's bearer": {"Authorization", token, "Cookie", others}, "cookie and application's bearer": {"Authorization", token, "Cookie", cookie + "; " + others},
		}
		for kind, send := range kinds {
			for i, column := range columns {
				got, want := send(s, at, credentials[column]...), answers[kind][i]
				if got.result != want {
					t.Errorf("%s to a %s with %s: %s, want %s", kind, endpoint, column, got.result, want)
				}
				if location := got.header.Get("Location"); (location != "") != (want == "303") {
					t.Errorf("%s to a %s with %s: redirected to %q", kind, endpoint, column, location)
				}
				if got.at == nil {
					continue
				}
				received := map[string]string{"Baggage": "sd-routing-key=" + keys[endpoint], "Signadot-Api-Key": "", "Cookie": others, "Authorization": ""}
				if strings.Contains(column, "bearer") {
					received["Authorization"] = token
				}
				if kind == "preflight" {
					received["Cookie"], received["Authorization"], received["Accept"], received["User-Agent"], received["X-Forwarded-For"] = "", "", "", "", ""
					received["Access-Control-Request-Method"] = "PUT"
				}
				for name, value := range received {
					if is := strings.Join(got.at.Header[name], "|"); is != value {
						t.Errorf("%s to a %s with %s: the application has received %s %q, want %q", kind, endpoint, column, name, is, value)
					}
				}
			}
		}
		foreign, _ := socket(s, at, "Cookie", cookie, "Origin", preview.URL("other", "pr-1"))
		none, _ := socket(s, at, "Cookie", cookie)
		key, _ := socket(s, at, "Signadot-Api-Key", preview.Key)
		if foreign.result != "403" || none.result != "403" || key.result != "101" {
			t.Errorf("WebSockets to a %s: %s of another origin, %s of none, %s of none with a key", endpoint, foreign.result, none.result, key.result)
		}
	}
}
