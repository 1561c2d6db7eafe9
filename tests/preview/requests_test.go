package preview_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/tests/preview"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// echoed is what a Service has received.
type echoed struct {
	Method, URI, Host, Proto string
	Header, Trailer          http.Header
	Body                     string // its hash
	Length                   int64
}

// echo answers with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	h := sha256.New()
	n, err := io.Copy(h, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Trailer", "X-Sum")
	w.Header()["Set-Cookie"] = []string{"a=1; Path=/", "b=2; Domain=" + preview.Domain}
	_ = json.NewEncoder(w).Encode(echoed{r.Method, r.RequestURI, r.Host, r.Proto, r.Header, r.Trailer, hex.EncodeToString(h.Sum(nil)), n})
	w.Header().Set("X-Sum", "done")
}

// service starts a server as a Service, over HTTP/1.1 and HTTP/2 without TLS, and returns its host and port.
func service(s *preview.Site, name string, handler http.HandlerFunc) string {
	l := s.Listen()
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }() // until the end of the test
	s.Cleanup(func() { _ = server.Close() })
	return s.Service(name, l)
}

// request returns a request with Ada's key.
func request(s *preview.Site, method, url string, body io.Reader) *http.Request {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, url, body)
	s.Must(err)
	r.Header.Set("Signadot-Api-Key", preview.Key)
	return r
}

// send sends a request and returns the answer with its body.
func send(s *preview.Site, c *http.Client, r *http.Request) (*http.Response, string) {
	s.Helper()
	a, err := c.Do(r)
	s.Must(err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	s.Must(err)
	return a, string(text)
}

// read returns what the Service has received.
func read(s *preview.Site, text string) (e echoed) {
	s.Helper()
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		s.Fatalf("the answer is %q", text)
	}
	return e
}

func TestARequestHasTheKeyOfItsSandbox(t *testing.T) {
	s := preview.New(t, preview.Options{})
	host := service(s, "web", echo)
	box := s.Sandbox("pr-1", map[string]string{"web": "http://" + host})
	for _, one := range []bool{true, false} {
		r := request(s, http.MethodGet, preview.URL("web", "pr-1")+"/a%2Fb//c?x=1;y=%zz", nil)
		for name, value := range map[string]string{
			"Baggage": "a=1,sd-routing-key=other", "Uberctx-Sd-Routing-Key": "other", "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Prefix": "/x",
			"Authorization": "Basic eDp5", "User-Agent": "test", "Cookie": "c=1", "X-Hop": "1",
		} {
			r.Header.Set(name, value)
		}
		if one {
			r.Header.Set("Connection", "X-Hop")
		} else {
			r.Header.Del("X-Hop")
		}
		a, text := send(s, s.Client(one), r)
		got := read(s, text)
		if a.StatusCode != http.StatusOK || (a.ProtoMajor == 1) != one || got.Proto != "HTTP/1.1" {
			t.Errorf("status %d, %s to the proxy and %s to the Service", a.StatusCode, a.Proto, got.Proto)
		}
		if got.URI != "/a%2Fb//c?x=1;y=%zz" || got.Host != host {
			t.Errorf("the Service has received %s of host %s", got.URI, got.Host)
		}
		for name, want := range map[string]string{
			"Baggage": "a=1,sd-routing-key=" + box.RoutingKey, "Tracestate": "sd-routing-key=" + box.RoutingKey, "Ot-Baggage-Sd-Routing-Key": box.RoutingKey, "Uberctx-Sd-Routing-Key": box.RoutingKey,
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "web--pr-1." + preview.Domain, "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "", "X-Hop": "",
			"Signadot-Api-Key": "", "Authorization": "Basic eDp5", "User-Agent": "test", "Cookie": "c=1",
		} {
			if is := strings.Join(got.Header[name], "|"); is != want {
				t.Errorf("%s is %q, want %q", name, is, want)
			}
		}
		if cookies := a.Header["Set-Cookie"]; !slices.Equal(cookies, []string{"a=1; Path=/"}) || a.Trailer.Get("X-Sum") != "done" {
			t.Errorf("the answer has the cookies %q and the trailer %v", cookies, a.Trailer)
		}
	}
}

func TestBodiesPassInBothDirections(t *testing.T) {
	s := preview.New(t, preview.Options{})
	s.Sandbox("bodies", map[string]string{"web": "http://" + service(s, "web", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			echo(w, r)
			return
		}
		_, _ = io.Copy(w, io.LimitReader(rand.Reader, 64<<20)) // the client counts
	})})
	body := make([]byte, 32<<20)
	_, _ = rand.Read(body)
	for _, one := range []bool{true, false} {
		r := request(s, http.MethodPost, preview.URL("web", "bodies"), struct{ io.Reader }{bytes.NewReader(body)}) // chunks, of unknown length
		r.Trailer = http.Header{"X-After": {"later"}}
		_, text := send(s, s.Client(one), r)
		if got, sum := read(s, text), sha256.Sum256(body); got.Length != int64(len(body)) || got.Body != hex.EncodeToString(sum[:]) || got.Trailer.Get("X-After") != "later" {
			t.Errorf("HTTP/1.1 %t: the Service has received %d bytes, trailer %v", one, got.Length, got.Trailer)
		}
		if _, text := send(s, s.Client(one), request(s, http.MethodGet, preview.URL("web", "bodies"), nil)); len(text) != 64<<20 {
			t.Errorf("HTTP/1.1 %t: the client has received %d bytes", one, len(text))
		}
	}
}

// A part of an answer arrives before the rest exists, also while the body of the request is being sent.
func TestStreams(t *testing.T) {
	s := preview.New(t, preview.Options{})
	s.Sandbox("streams", map[string]string{"web": "http://" + service(s, "web", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusEarlyHints)
		lines := bufio.NewScanner(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for lines.Scan() {
			fmt.Fprintf(w, "data: %s\n\n", lines.Text())
			_ = http.NewResponseController(w).Flush()
		}
	})})
	for _, one := range []bool{true, false} {
		from, to := io.Pipe()
		a, err := s.Client(one).Do(request(s, http.MethodPost, preview.URL("web", "streams"), from))
		s.Must(err)
		lines := bufio.NewReader(a.Body)
		for i := range 3 {
			fmt.Fprintln(to, i)
			if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Errorf("HTTP/1.1 %t: event %d is %q, %v", one, i, line, err)
			}
			_, err := lines.ReadString('\n')
			s.Must(err)
		}
		s.Must(to.Close())
		rest, err := io.ReadAll(lines)
		if a.Body.Close(); err != nil || len(rest) > 0 {
			t.Errorf("HTTP/1.1 %t: the end is %q, %v", one, rest, err)
		}
	}
}

// refused sends a request and fails unless the answer has a status and a text.
func refused(s *preview.Site, r *http.Request, status int, text string) {
	s.Helper()
	a, got := send(s, s.Client(false), r)
	if a.StatusCode != status || !strings.Contains(got, text) {
		s.Errorf("%s: status %d, %q; want %d, %q", r.URL, a.StatusCode, got, status, text)
	}
}

func TestRefusals(t *testing.T) {
	s := preview.New(t, preview.Options{})
	host := service(s, "web", echo)
	get := func(endpoint, owner string) *http.Request {
		return request(s, http.MethodGet, preview.URL(endpoint, owner), nil)
	}
	s.Sandbox("known", map[string]string{"web": "http://" + host, "tls": "https://" + host, "none": "http://none." + s.Namespace + ".svc:80", "closed": "http://web." + s.Namespace + ".svc:1"})
	refused(s, get("other", "known"), http.StatusNotFound, `No sandbox or route group "known" has an endpoint "other".`)
	refused(s, get("web", "other"), http.StatusNotFound, "There is no such preview")
	refused(s, get("tls", "known"), http.StatusNotImplemented, "write a target that begins with http://")
	refused(s, get("none", "known"), http.StatusBadGateway, "The cluster knows no name none.")
	refused(s, get("closed", "known"), http.StatusBadGateway, "The target of this preview is not reached")
	for _, wrong := range []string{"https://web.preview.example.net", "https://web--known.other.example.net"} {
		r := request(s, http.MethodGet, wrong, nil)
		r.Host, r.URL.Host = r.URL.Host, "web--known."+preview.Domain
		refused(s, r, http.StatusMisdirectedRequest, "No preview has this address")
	}
	// Without authorization one answer is as another.
	for _, owner := range []string{"known", "other"} {
		r := get("web", owner)
		r.Header.Del("Signadot-Api-Key")
		refused(s, r, http.StatusUnauthorized, "")
		r = get("nowhere", owner)
		r.Method, r.Header = http.MethodOptions, http.Header{"Origin": {"https://a.example"}, "Access-Control-Request-Method": {"PUT"}}
		refused(s, r, http.StatusNotFound, "The preflight has no answer")
	}
	s.Apply("waits", preview.Endpoints(map[string]string{"web": "http://" + host}))
	refused(s, get("web", "waits"), http.StatusServiceUnavailable, "Sandbox waits ")
	s.Ready("waits", false, "Pod p: container main is crash-looping. Check its logs.")
	refused(s, get("web", "waits"), http.StatusServiceUnavailable, "Sandbox waits is not ready: Pod p: container main is crash-looping.")
	s.Ready("waits", true, "all is ready")
	refused(s, get("web", "waits"), http.StatusOK, "")
	s.Stop()
	refused(s, get("web", "known"), http.StatusServiceUnavailable, `The agent of cluster "prod" is not connected`)
}

func TestARequestEndsWithItsKey(t *testing.T) {
	s := preview.New(t, preview.Options{})
	s.Sandbox("revoked", map[string]string{"web": "http://" + service(s, "web", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})})
	key := "s3cret-" + strings.Repeat("k", 43)
	s.AddKey("k-2", preview.Ada, key)
	for _, one := range []bool{true, false} {
		r := request(s, http.MethodGet, preview.URL("web", "revoked"), nil)
		r.Header.Set("Signadot-Api-Key", key)
		a, err := s.Client(one).Do(r)
		s.Must(err)
		defer a.Body.Close()
		ended := make(chan error, 1)
		go func() { _, err := io.ReadAll(a.Body); ended <- err }()
		s.Must(s.Main.Store().DeleteAPIKey(context.WithoutCancel(t.Context()), preview.Organisation, preview.Ada, "k-2", s.Event()))
		if err := <-ended; err == nil {
			t.Errorf("HTTP/1.1 %t: the answer ends as if it were complete", one)
		}
		s.AddKey("k-2", preview.Ada, key)
	}
}
