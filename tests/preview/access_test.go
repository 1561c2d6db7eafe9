package preview_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane"
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
			defer func() { _ = c.Close() }()
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

// endpoints makes a sandbox, a route group, and sandboxes with deprecated endpoints, one of a fork, with names that begin alike, and
// returns their previews and routing keys.
func endpoints(s *preview.Site, prefix string) (urls, keys map[string]string) {
	s.Helper()
	sandbox, deprecated, team := prefix+"-new", prefix+"-old", prefix+"-team"
	web := application()
	host := service(s, "web", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodOptions || r.Header.Get("Origin") == "" {
			web(w, r)
			return
		}
		answer := httptest.NewRecorder()
		web(answer, r)
		w.Header().Set(inPreflights, strings.TrimSpace(answer.Body.String()))
	})
	name, port, _ := strings.Cut(host, ":")
	box := s.Sandbox(sandbox, map[string]string{"web": "http://" + host})
	old := s.Apply(deprecated, map[string]any{"cluster": preview.Cluster, "endpoints": []map[string]any{{"name": "web", "host": name, "port": json.Number(port), "protocol": "http"}}})
	s.Ready(deprecated, true, "all is ready")
	if status, text := s.Call(http.MethodPut, "routegroups/"+team, map[string]any{"spec": map[string]any{
		"cluster": preview.Cluster, "match": map[string]any{"label": map[string]any{"key": "team", "value": "x"}}, "endpoints": []map[string]any{{"name": "web", "target": "http://" + host}},
	}}); status != http.StatusOK {
		s.Fatalf("PUT of the route group: %d %s", status, text)
	}
	group := readyGroup(s, team)
	labels := map[string]string{"app": "web"}
	containers := []corev1.Container{{Name: "web", Image: "web"}}
	s.Create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: containers}},
	}})
	slice := &discoveryv1.EndpointSlice{}
	s.Must(s.World.Client.Get(s.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "web"}, slice))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web", Labels: labels}, Spec: corev1.PodSpec{Containers: containers}}
	s.Create(pod)
	at := slice.Endpoints[0].Addresses[0]
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: at, PodIPs: []corev1.PodIP{{IP: at}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	s.Must(s.World.Client.Status().Update(s.Context(), pod))
	forked := s.Apply(prefix+"-fork", map[string]any{"cluster": preview.Cluster, "forks": []map[string]any{{
		"forkOf": map[string]any{"kind": "Deployment", "namespace": s.Namespace, "name": "web"}, "endpoints": []map[string]any{{"name": "web", "port": json.Number(port), "protocol": "http"}},
	}}})
	s.Ready(prefix+"-fork", true, "all is ready")
	return map[string]string{"endpoint of a fork": preview.URL("web", prefix+"-fork"), "sandbox": preview.URL("web", sandbox), "deprecated endpoint": preview.URL("web", deprecated), "route group": preview.URL("web", team)},
		map[string]string{"endpoint of a fork": forked.RoutingKey, "sandbox": box.RoutingKey, "deprecated endpoint": old.RoutingKey, "route group": group.RoutingKey}
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

// inPreflights is the header in which the application answers preflights: they have no body.
const inPreflights = "Access-Control-Echo"

// call sends a request with headers to a preview.
func call(s *preview.Site, method, at string, headers ...string) answered {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, at+"/a?b=c", nil)
	s.Must(err)
	set(r.Header, headers...)
	a, text := send(s, s.Client(false), r)
	out := answered{result: fmt.Sprint(a.StatusCode), header: a.Header}
	if text = strings.TrimPrefix(text+a.Header.Get(inPreflights), "data: "); a.StatusCode == http.StatusOK {
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

// TestAccess tests authorization at one site.
func TestAccess(t *testing.T) {
	s := withIssuer(t, nil)
	urls, keys := endpoints(s, "access")
	firstVisit(s, urls)
	noWorkingCookie(s, urls)
	otherPreviews(s, urls)
	streams(s, urls)
	matrix(s, urls, keys)
}

// matrix sends each kind of request with each credential to each kind of endpoint.
func matrix(s *preview.Site, urls, keys map[string]string) {
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
					s.Errorf("%s to a %s with %s: %s, want %s", kind, endpoint, column, got.result, want)
				}
				if location := got.header.Get("Location"); (location != "") != (want == "303") {
					s.Errorf("%s to a %s with %s: redirected to %q", kind, endpoint, column, location)
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
						s.Errorf("%s to a %s with %s: the application has received %s %q, want %q", kind, endpoint, column, name, is, value)
					}
				}
			}
		}
		foreign, _ := socket(s, at, "Cookie", cookie, "Origin", preview.URL("other", "pr-1"))
		none, _ := socket(s, at, "Cookie", cookie)
		key, _ := socket(s, at, "Signadot-Api-Key", preview.Key)
		if foreign.result != "403" || none.result != "403" || key.result != "101" {
			s.Errorf("WebSockets to a %s: %s of another origin, %s of none, %s of none with a key", endpoint, foreign.result, none.result, key.result)
		}
	}
}

// firstVisit: a browser with a session at the page is redirected three times, to three URLs, and then never.
func firstVisit(s *preview.Site, urls map[string]string) {
	b := newBrowser(s)
	first := urls["sandbox"] + "/a?b=c%2Fd&e=//x"
	b.open(first).want(http.StatusOK, "To open the preview").login().want(http.StatusOK, `"URI":"/a?b=c%2Fd\u0026e=//x"`)
	if v := b.open(first).want(http.StatusOK, ""); v.url.String() != first || len(b.hops) > 0 {
		s.Errorf("with a session at the preview: %s, redirected to %q", v.url, b.hops)
	}
	for name, at := range urls {
		at += "/" + strings.Repeat("long/", 20) + "?to=https://evil.example/"
		v := b.open(at).want(http.StatusOK, "")
		want := 3
		if name == "sandbox" {
			want = 0
		}
		if sorted := slices.Sorted(slices.Values(b.hops)); v.url.String() != at || len(b.hops) != want || len(slices.Compact(sorted)) != want {
			s.Errorf("%s: %s, redirected to %q", name, v.url, b.hops)
		}
	}
	b.logout()
	v := b.open(first).want(http.StatusOK, "To open the preview")
	if v.url.Host != preview.Page || len(b.hops) != 1 {
		s.Errorf("after the logout: %s, redirected to %q", v.url, b.hops)
	}
	v.login().want(http.StatusOK, `"URI":"/a?b=c`)
}

// noWorkingCookie: a login that returns without a working cookie ends on a page with the reason.
func noWorkingCookie(s *preview.Site, urls map[string]string) {
	for _, part := range []string{"-nonce-", "-preview-", "switchyard"} {
		b := newBrowser(s)
		b.open(page + "/login/device").login()
		b.refuses = func(c *http.Cookie) bool { return strings.Contains(c.Name, part) }
		v := b.open(urls["sandbox"]).want(http.StatusForbidden, "did not return the cookie of this preview")
		if len(b.hops) > 3 || strings.Contains(v.url.String(), "code=") {
			s.Errorf("without cookies of %s: redirected to %q", part, b.hops)
		}
		b.refuses = nil
		v.follow("/").want(http.StatusOK, `"URI":"/"`)
	}
}

// otherPreviews: what a preview has, or a person at it, gives no session at another one and in no other
// browser.
func otherPreviews(s *preview.Site, urls map[string]string) {
	a, b := urls["sandbox"], urls["route group"]
	eve, jo := newBrowser(s), newBrowser(s)
	eve.open(page + "/login/device").login()
	jo.open(page + "/login/device").login()
	eve.open(a).want(http.StatusOK, "")
	if got := kinds["script"](s, b, "Cookie", eve.session(a)); got.result != "401" {
		s.Errorf("the cookie of another preview: %s", got.result)
	}
	var code string
	follow := eve.CheckRedirect
	eve.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if r.URL.Path == "/.switchyard/session" {
			code = r.URL.String()
			return http.ErrUseLastResponse
		}
		return follow(r, via)
	}
	eve.open(b)
	for name, at := range map[string]string{"the code of another person": code, "that at another preview": strings.Replace(code, b, a, 1)} {
		for _, with := range []*browser{newBrowser(s), jo} {
			v := with.open(at).want(http.StatusForbidden, "")
			if v.url.Path != "/.switchyard/failed" || strings.Contains(fmt.Sprint(with.cookies(at)), "-preview-") {
				s.Errorf("%s: %s, cookies %v", name, v.url, with.cookies(at))
			}
		}
	}
	eve.CheckRedirect = follow
	eve.open(code).want(http.StatusOK, `"URI":"/"`)
	session := eve.session(b)
	if v := eve.open(code).want(http.StatusOK, ""); len(eve.hops) != 1 || eve.session(b) != session {
		s.Errorf("a code that was used: %s, redirected to %q", v.url, eve.hops)
	}
}

// streams: streams end once their session has ended, by a logout or with its user.
func streams(s *preview.Site, urls map[string]string) {
	at := urls["sandbox"]
	ends := map[string]func(b *browser){
		"logout": func(b *browser) { b.logout() }, "logout everywhere": func(b *browser) { b.logout("everywhere", "yes") },
		"deletion of the user": func(*browser) {
			all, err := s.Main.Store().Users(s.Context(), preview.Organisation)
			s.Must(err)
			for _, u := range all {
				if u.ID != preview.Ada.ID && strings.Contains(u.Email, "test-user2") {
					s.Must(s.Main.Store().DeleteUser(s.Context(), preview.Organisation, u.ID, s.Event()))
				}
			}
		},
	}
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		b := newBrowser(s)
		b.open(at).login().want(http.StatusOK, "")
		cookie := b.session(at)
		ended := make(chan error)
		for _, one := range []bool{true, false} {
			r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, at+"/stream", nil)
			s.Must(err)
			set(r.Header, "Accept", "text/event-stream", "Cookie", cookie)
			a, err := s.Client(one).Do(r)
			s.Must(err)
			defer a.Body.Close()
			go func() { _, err := io.ReadAll(a.Body); ended <- err }()
		}
		_, c := socket(s, at, "Cookie", cookie, "Origin", at)
		go func() { _, _, err := c.ReadMessage(); ended <- err }()
		select {
		case err := <-ended:
			s.Errorf("%s: a stream has ended before: %v", name, err)
		default:
		}
		ends[name](b)
		for range 3 { // no answer ends as if it were complete
			if err := <-ended; err == nil {
				s.Errorf("%s: a stream has ended without an error", name)
			}
		}
		if got := kinds["script"](s, at, "Cookie", cookie); got.result != "401" {
			s.Errorf("%s: a request after it: %s", name, got.result)
		}
	}
}

// TestEmbedded: with the value for it a preview in a frame of another site logs in by a code.
func TestEmbedded(t *testing.T) {
	s := withIssuer(t, func(c *controlplane.Config) { c.Previews.Embedded, c.Previews.AnswersPreflights = true, true })
	urls, _ := endpoints(s, "embedded")
	jo, frame := newBrowser(s), newBrowser(s) // a browser keeps cookies of a frame apart
	jo.open(page + "/login/device").login()
	v := frame.send(http.MethodGet, urls["sandbox"]+"/a", nil, "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site").want(http.StatusOK, "Accept code")
	_, next, _ := strings.Cut(v.header.Get("Refresh"), "url=")
	for _, n := range v.nodes("a") {
		if strings.Contains(n["href"], "/login/preview?frame=") {
			of := strings.TrimPrefix(urls["sandbox"], "https://")
			newBrowser(s).open(n["href"]).want(http.StatusOK, "To open the preview "+of)
			jo.open(n["href"]).want(http.StatusOK, "Preview "+of+", in a page of another site").want(http.StatusOK, "Compare the code").submit("/login/device", "decision", "accept").want(http.StatusOK, "Accepted")
		}
	}
	frame.send(http.MethodGet, urls["sandbox"]+next, nil, "Sec-Fetch-Dest", "iframe").want(http.StatusOK, `"URI":"/a"`)
	if got := kinds["frame"](s, urls["sandbox"], "Cookie", frame.session(urls["sandbox"])); got.result != "200" {
		t.Errorf("the next page in the frame: %s", got.result)
	}
	for name, at := range urls { // the rows that differ without the value: 401
		for credential, headers := range map[string][]string{"none": nil, "expired cookie": {"Cookie", "__Host-switchyard-preview-x=1"}, "application's bearer": {"Authorization", "Bearer application"}, "API key": {"Signadot-Api-Key", preview.Key}} {
			want, to := "303", "/.switchyard/embedded?to=%2Fa%3Fb%3Dc"
			if credential == "API key" {
				want, to = "200", ""
			}
			if got := kinds["frame"](s, at, headers...); got.result != want || got.header.Get("Location") != to {
				t.Errorf("a frame of a %s with %s: %s, %v", name, credential, got.result, got.header)
			}
		}
	}
	got := call(s, http.MethodOptions, urls["sandbox"], "Origin", urls["route group"], "Access-Control-Request-Method", "PUT")
	if got.result != "204" || got.header.Get("Access-Control-Allow-Origin") != urls["route group"] {
		t.Errorf("a preflight: %s, %v", got.result, got.header)
	}
	jo.logout()
	if got := kinds["script"](s, urls["sandbox"], "Cookie", frame.session(urls["sandbox"])); got.result != "401" {
		t.Errorf("after the logout: %s", got.result)
	}
}
