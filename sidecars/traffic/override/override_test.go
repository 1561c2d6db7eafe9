package override_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/sidecars/traffic/override"
	"switchyard.dev/sidecars/traffic/override/policy"
	"switchyard.dev/tools/wait"
)

// echo answers with the request.
func echo(name string, header ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		if s := r.URL.Query().Get("status"); s != "" && name == "override" {
			var code int
			_, _ = fmt.Sscan(s, &code)
			w.WriteHeader(code)
		}
		_, _ = fmt.Fprintf(w, "%s: %s %s %s %q %v", name, r.Method, r.RequestURI, r.Host, text, err)
	})
}

// both runs a test over both protocols.
func both(t *testing.T, run func(t *testing.T, two bool)) {
	t.Run("HTTP/1.1", func(t *testing.T) { run(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { run(t, true) })
}

func (a answer) marks() string {
	return fmt.Sprintf("override=%s asked=%s skipped=%s", a.header.Get(policy.Header), a.header.Get(policy.AskedHeader), a.header.Get(policy.SkippedHeader))
}

const (
	marksOverride    = "override=true asked= skipped="
	marksAsked       = "override= asked=true skipped="
	marksUnreachable = "override= asked= skipped=unreachable"
	marksNone        = "override= asked= skipped="
)

func TestTheMarkedAnswerCounts(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		w := newWorld(t, echo("app", "Sd-Override", "true"), http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mine" {
				echo("override", "Sd-Override", "true").ServeHTTP(rw, r)
				return
			}
			http.NotFound(rw, r)
		}))
		c := client(t, two)
		a := w.ask(c, "POST", "/mine?a=%2F;b", strings.NewReader("hello"))
		if want := fmt.Sprintf(`override: POST /mine?a=%%2F;b %s "hello" <nil>`, w.address); a.body != want || a.marks() != marksOverride || w.by() != "override /mine" {
			t.Errorf("%q (want %q), %s", a.body, want, a.marks())
		}
		a = w.ask(c, "POST", "/other", strings.NewReader("hello"))
		if !strings.HasPrefix(a.body, `app: POST /other `) || !strings.Contains(a.body, `"hello"`) || a.marks() != marksAsked {
			t.Errorf("%q, %s", a.body, a.marks())
		}
		if by := w.by(); by != "override /other, app /other" {
			t.Errorf("served by %s", by)
		}
	})
}

func TestAnswersCountByTheirStatus(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		w := newWorld(t, echo("app"), echo("override"))
		w.settle(func(s *override.Settings) { s.Policy = policy.Policy{ByStatus: true, Except: []int{404, 503}} })
		c := client(t, two)
		for status, want := range map[int]string{200: "override", 500: "override", 404: "app", 503: "app"} {
			a := w.ask(c, "GET", fmt.Sprintf("/?status=%d", status), nil)
			marks := map[string]string{"override": marksOverride, "app": marksAsked}[want]
			if !strings.HasPrefix(a.body, want+": GET") || a.marks() != marks {
				t.Errorf("%d: %d %q, %s", status, a.status, a.body, a.marks())
			}
		}
	})
}

// The target is down, closes the connection, or comes and goes.
func TestAnUnreachableOverrideIsSkipped(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		w := newWorld(t, echo("app"), nil)
		c := client(t, two)
		ask := func() {
			t.Helper()
			a := w.ask(c, "POST", "/", strings.NewReader("hello"))
			if !strings.HasPrefix(a.body, `app: POST`) || !strings.Contains(a.body, `"hello"`) || a.marks() != marksUnreachable {
				t.Errorf("%q, %s", a.body, a.marks())
			}
		}
		ask()
		closing := listen(t)
		go func() {
			for {
				c, err := closing.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 10))
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
			}
		}()
		w.settle(func(s *override.Settings) { s.Address = closing.Addr().String() })
		ask()
	})
}

// Large bodies and streams go to the application alone, whole.
func TestWhatIsNotHeld(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprint(rw, n, err)
		}), echo("override", "Sd-Override", "true"))
		c := client(t, two)
		for name, test := range map[string]struct {
			body io.Reader
			size int
			want string
		}{
			"the largest":               {bytes.NewReader(make([]byte, override.MaxBody)), override.MaxBody, marksOverride},
			"a larger one":              {bytes.NewReader(make([]byte, override.MaxBody+1)), override.MaxBody + 1, "override= asked= skipped=body"},
			"the largest, of no length": {io.MultiReader(bytes.NewReader(make([]byte, override.MaxBody))), override.MaxBody, marksOverride},
			"larger, of no length":      {io.MultiReader(bytes.NewReader(make([]byte, 3*override.MaxBody))), 3 * override.MaxBody, "override= asked= skipped=body"},
		} {
			a := w.ask(c, "PUT", "/", test.body)
			if a.marks() != test.want {
				t.Errorf("%s: %s", name, a.marks())
			}
			if by := w.by(); strings.Contains(by, "app") && (by != "app /" || a.body != fmt.Sprint(test.size, " <nil>") && a.body != fmt.Sprint(test.size, nil)) {
				t.Errorf("%s: served by %s: %s", name, by, a.body)
			}
		}
	})
}

// Many callers send almost all of a body, and wait. Then there is no room for the bodies of others until they leave.
func TestHeldBodiesHaveACommonBound(t *testing.T) {
	w := newWorld(t, echo("app"), echo("override", "Sd-Override", "true"))
	text := strings.Repeat("x", 64<<10)
	asked := func(what, marks string) {
		t.Helper()
		wait.Eventually(t, time.Minute, what, func() error {
			if a := w.ask(client(t, true), "POST", "/", io.MultiReader(strings.NewReader(text))); a.marks() != marks || !strings.Contains(a.body, text) {
				return fmt.Errorf("%s %.50q", a.marks(), a.body)
			}
			return nil
		})
	}
	asked("there is room", marksOverride)
	w.by()
	var crowd []net.Conn
	for range override.MaxHeld/override.MaxBody + 1 {
		c, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd = append(crowd, c)
		go func() {
			_, _ = fmt.Fprintf(c, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", override.MaxBody, make([]byte, override.MaxBody-1))
		}()
	}
	wait.Eventually(t, time.Minute, "one of them is passed on to the application, since the others use up the room", func() error {
		if by := w.by(); !strings.Contains(by, "app /") {
			return fmt.Errorf("served by %q", by)
		}
		return nil
	})
	asked("there is none", "override= asked= skipped=body")
	for _, c := range crowd {
		_ = c.Close()
	}
	asked("there is room again", marksOverride)
}

// An override that takes a part of the request, or sends a part of an answer that does not count, and then nothing more.
func TestAnOverrideThatStops(t *testing.T) {
	for name, answer := range map[string]string{"reading": "", "answering": "HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nnot"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, echo("app"), nil)
			stops := listen(t)
			go func() {
				for {
					a, err := stops.Accept()
					if err != nil {
						return
					}
					defer a.Close()
					_ = a.(*net.TCPConn).SetReadBuffer(4 << 10)
					_, _ = a.Read(make([]byte, 10))
					_, _ = io.WriteString(a, answer)
				}
			}()
			first := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", stops.Addr().String())
				if err == nil {
					err = conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
				}
				return conn, err
			}}
			o := &override.Override{First: first, Then: &http.Transport{}, Within: time.Second}
			body := strings.NewReader(strings.Repeat("x", override.MaxBody))
			if name == "answering" {
				body.Reset("hello")
			}
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+w.app.Addr().String(), body)
			if err != nil {
				t.Fatal(err)
			}
			a, err := o.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(a.Body)
			_ = a.Body.Close()
			marked := a.Header.Get(policy.AskedHeader) != "" && name == "answering" || a.Header.Get(policy.SkippedHeader) != "" // by its time on a busy machine
			if !strings.HasPrefix(string(text), "app: POST") || err != nil || !marked {
				t.Errorf("%.50q, %v, %v", text, err, a.Header)
			}
		})
	}
}

// A caller that sends a part, and the rest only after it has got an answer.
func TestAStreamPasses(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(rw).EnableFullDuplex()
			in := bufio.NewReader(r.Body)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				_, _ = io.WriteString(rw, "got "+line)
				_ = http.NewResponseController(rw).Flush()
			}
		}), echo("override", "Sd-Override", "true"))
		w.settle(func(s *override.Settings) { s.Stream = 0 })
		body, write := io.Pipe()
		go func() { _, _ = io.WriteString(write, "one\n") }()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+w.address+"/", body)
		a, err := client(t, two).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		out := bufio.NewReader(a.Body)
		for _, line := range []string{"one\n", "two\n", "three\n"} {
			if line != "one\n" {
				go func() { _, _ = io.WriteString(write, line) }()
			}
			if got, err := out.ReadString('\n'); got != "got "+line || err != nil {
				t.Fatalf("%q, %v", got, err)
			}
		}
		_ = write.Close()
		if rest, err := io.ReadAll(out); len(rest) > 0 || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
		if by := w.by(); by != "app /" || a.Header.Get(policy.SkippedHeader) != "stream" {
			t.Errorf("served by %s, %v", by, a.Header)
		}
	})
}

// Options of the whole server are those of the application, or of the override.
func TestOptionsOfTheWholeServer(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		w := newWorld(t, echo("app"), http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			echo("override", "Sd-Override", r.Header.Get("Wanted")).ServeHTTP(rw, r)
		}))
		for wanted, by := range map[string]string{"true": "override", "false": "app"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://"+w.address, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.URL.Path = "*"
			r.Header.Set("Wanted", wanted)
			a, err := client(t, two).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(a.Body)
			_ = a.Body.Close()
			if want := by + ": OPTIONS * " + w.address; !strings.HasPrefix(string(text), want) {
				t.Errorf("%d, %q, want %s", a.StatusCode, text, want)
			}
		}
	})
}

// Upgrades and other protocols pass to the application.
func TestOtherProtocolsPass(t *testing.T) {
	w := newWorld(t, nil, echo("override", "Sd-Override", "true"))
	app, err := net.Listen("tcp", w.app.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	go func() {
		for {
			c, err := app.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				if first, _ := in.Peek(3); string(first) == "GET" {
					r, err := http.ReadRequest(in)
					if err != nil || r.Header.Get("Upgrade") != "echo" {
						return
					}
					_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				}
				_, _ = io.Copy(c, in)
			}()
		}
	}()
	for name, begin := range map[string]string{
		"an upgrade":       "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
		"another protocol": "*2\r\n$4\r\nECHO\r\n",
		"a tunnel":         "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
		"a tunnel to h":    "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", w.address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			_, _ = io.WriteString(c, begin)
			in := bufio.NewReader(c)
			want := begin
			if name == "an upgrade" {
				a, err := http.ReadResponse(in, nil)
				if err != nil || a.StatusCode != 101 || a.Header.Get(policy.SkippedHeader) != "stream" {
					t.Fatal(a, err)
				}
				want = ""
			}
			_, _ = io.WriteString(c, "ping\n")
			if want += "ping\n"; name != "an upgrade" {
				_ = c.(*net.TCPConn).CloseWrite()
				got, err := io.ReadAll(in)
				if string(got) != want || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			} else if got, err := in.ReadString('\n'); got != want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A request with the key selects middlewares; one without it does not.
func TestSelection(t *testing.T) {
	w := newWorld(t, echo("app"), echo("override", "Sd-Override", "true"))
	c := client(t, false)
	for _, test := range []struct{ baggage, marks, ignored string }{
		{"", marksOverride, ""},
		{"sd-traffic=none", marksOverride, ""},
		{"sd-routing-key=k,sd-traffic=none", "override= asked= skipped=sd-traffic", ""},
		{"sd-routing-key=k,sd-traffic=trafficwatch", "override= asked= skipped=sd-traffic", ""},
		{"sd-routing-key=k,sd-traffic=trafficwatch+override", marksOverride, ""},
		{"sd-routing-key=other,sd-traffic=none", marksOverride, ""},
		{"sd-routing-key=k,sd-traffic=nnone", marksOverride, `sd-traffic selects "nnone", which is none of override, trafficwatch`},
	} {
		a := w.ask(c, "GET", "/", nil, "Baggage", test.baggage)
		if a.marks() != test.marks || a.header.Get(policy.IgnoredHeader) != test.ignored {
			t.Errorf("%q: %s, %q", test.baggage, a.marks(), a.header.Get(policy.IgnoredHeader))
		}
		if by := w.by(); strings.Contains(test.marks, "skipped=sd-traffic") && by != "app /" {
			t.Errorf("%q: served by %s", test.baggage, by)
		}
	}
}

// Connections outlive the override: their next requests have none, and then another one.
func TestTheOverrideOfAnOpenConnectionChanges(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		w := newWorld(t, echo("app"), echo("override", "Sd-Override", "true"))
		c := client(t, two)
		address := w.set.Address
		for _, one := range []string{marksOverride, marksNone, marksOverride} {
			w.settle(func(s *override.Settings) {
				if s.Address = address; one == marksNone {
					s.Address = ""
				}
			})
			if a := w.ask(c, "GET", "/", nil); a.marks() != one {
				t.Errorf("%s, want %s", a.marks(), one)
			}
		}
	})
}

// What the application answers is what the caller gets: nothing is added, removed or decoded.
func TestTheApplicationsAnswerStays(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		w := newWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header()["Date"], rw.Header()["Content-Type"] = nil, nil
			for name, values := range r.Header {
				rw.Header()["Got-"+name] = values
			}
			rw.Header().Set("Trailer", "Sum")
			rw.Header()["Content-Encoding"] = []string{"gzip"}
			_, _ = io.Copy(rw, r.Body)
			rw.Header().Set("Sum", "7")
		}), echo("override"))
		for range 2 {
			a := w.ask(client(t, two), "POST", "//a/./b", io.MultiReader(strings.NewReader("<html>")), "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Proto", "https",
				"Accept-Encoding", "br", "User-Agent", "", "Forwarded", "for=a")
			want := http.Header{"Got-X-Forwarded-For": {"1.2.3.4"}, "Got-X-Forwarded-Proto": {"https"}, "Got-Accept-Encoding": {"br"}, "Got-Forwarded": {"for=a"}, "Content-Encoding": {"gzip"}}
			for name := range want {
				if got := a.header.Values(name); len(got) != 1 || got[0] != want.Get(name) {
					t.Errorf("%s is %q", name, got)
				}
			}
			for _, name := range []string{"Date", "Content-Type", "Got-User-Agent", "Got-Via", "Got-X-Forwarded-Host"} {
				if a.header.Get(name) != "" {
					t.Errorf("%s is %q", name, a.header.Get(name))
				}
			}
			if a.body != "<html>" || a.trailer.Get("Sum") != "7" {
				t.Errorf("%q, trailers %v", a.body, a.trailer)
			}
			w.settle(func(s *override.Settings) { s.Address = "" })
		}
	})
}

// An application that does not answer has its callers' connections reset, as without an override.
func TestAnApplicationThatIsDown(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		w := newWorld(t, nil, echo("override"))
		a, err := client(t, two).Get("http://" + w.address + "/")
		if err == nil {
			_ = a.Body.Close()
			t.Errorf("status %d", a.StatusCode)
		}
	})
}
