package keeper_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// peculiar is an application that uses much of what HTTP/1 has.
type peculiar struct {
	side string
	// arrived is told of each event that the client got.
	arrived chan struct{}
}

func (p *peculiar) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Side", p.side)
	switch q.URL.Path {
	case "/echo": // chunked, with the client's trailers in its own
		w.Header().Set("Trailer", "Sum")
		_ = http.NewResponseController(w).EnableFullDuplex()
		sum := sha256.New()
		_, err := io.Copy(io.MultiWriter(w, sum), q.Body)
		w.Header().Set("Sum", fmt.Sprintf("%x %s %v", sum.Sum(nil)[:4], q.Trailer.Get("Mood"), err))
	case "/sink": // reads all, keeps nothing
		n, err := io.Copy(io.Discard, q.Body)
		_, _ = fmt.Fprint(w, n, err)
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-p.arrived: // no further one before
			case <-q.Context().Done():
				return
			}
		}
	case "/refuse": // with the body unread
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusExpectationFailed)
	case "/status":
		w.Header().Set("Etag", `"1"`)
		status, _ := strconv.Atoi(q.URL.RawQuery)
		w.WriteHeader(status)
	default:
		body, _ := io.ReadAll(q.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s %s", p.side, q.Proto, q.URL.Path, body)
	}
}

// peculiars returns a rig with the application on both sides, and each one's half.
func peculiars(t *testing.T) (*rig, map[string]*peculiar) {
	t.Helper()
	r := newRig(t)
	all := map[string]*peculiar{}
	for side, l := range map[string]net.Listener{"baseline": r.app(8080), "fork": r.fork("10.96.8.1:80")} {
		all[side] = &peculiar{side, make(chan struct{})}
		protocols := &http.Protocols{}
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{Protocols: protocols, Handler: all[side], ReadHeaderTimeout: patience}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	r.Board.Declare(sandbox("k1", "10.96.8.1:80", 8080))
	r.Board.Complete()
	r.serveXDS()
	return r, all
}

// both are the sides and a key that reaches each.
func both() map[string]string { return map[string]string{"fork": "k1", "baseline": "unknown"} }

// talk is a client that sends and receives lines.
type talk struct {
	t *testing.T
	net.Conn
	*bufio.Reader
}

func (r *rig) talk(t *testing.T) *talk {
	t.Helper()
	c, err := net.Dial("tcp", r.address+":8080")
	r.must(err)
	t.Cleanup(func() { _ = c.Close() })
	return &talk{t, deadline(c), bufio.NewReader(c)}
}

func (c *talk) Read(b []byte) (int, error) { return c.Reader.Read(b) }

// say sends text; {key} represents the header line of a key.
func (c *talk) say(k, text string) {
	c.t.Helper()
	text = strings.ReplaceAll(text, "{key}", "Host: customer\r\nbaggage: sd-routing-key="+k+"\r\n")
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// hear reads a response, with its body.
func (c *talk) hear(method string) (*http.Response, string) {
	c.t.Helper()
	response, err := http.ReadResponse(c.Reader, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response, string(body)
}

// ended fails unless the other side has ended the connection.
func (c *talk) ended() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.Reader); err != nil || len(rest) > 0 {
		c.t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestFeaturesOfHTTP1(t *testing.T) {
	r, apps := peculiars(t)
	r.sidecar()
	r.ready()
	r.acked()
	for name, f := range map[string]func(*testing.T, *talk, string, string){
		"the application decides to go on": func(t *testing.T, c *talk, side, k string) {
			c.say(k, "POST /x HTTP/1.1\r\n{key}Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
			if first, _ := c.hear("POST"); first.StatusCode != http.StatusContinue {
				t.Fatalf("%v", first)
			}
			c.say(k, "body")
			if got, body := c.hear("POST"); got.StatusCode != 200 || body != side+" HTTP/1.1 /x body" {
				t.Errorf("%v, %s", got, body)
			}
		},
		"the application refuses to go on": func(t *testing.T, c *talk, side, k string) {
			c.say(k, "POST /refuse HTTP/1.1\r\n{key}Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
			if got, _ := c.hear("POST"); got.StatusCode != http.StatusExpectationFailed || got.Header.Get("Side") != side {
				t.Errorf("%v", got)
			}
		},
		"Expect without a body": func(t *testing.T, c *talk, side, k string) {
			c.say(k, "GET /x HTTP/1.1\r\n{key}Expect: 100-continue\r\n\r\n")
			got, body := c.hear("GET")
			if got.StatusCode == http.StatusContinue {
				got, body = c.hear("GET")
			}
			if got.StatusCode != 200 || body != side+" HTTP/1.1 /x " {
				t.Errorf("%v, %s", got, body)
			}
		},
		"an answer before the upload has ended": func(t *testing.T, c *talk, side, k string) {
			c.say(k, "POST /refuse HTTP/1.1\r\n{key}Content-Length: 1000000\r\n\r\nthe first of many")
			if got, _ := c.hear("POST"); got.StatusCode != http.StatusExpectationFailed || got.Header.Get("Side") != side {
				t.Errorf("%v", got)
			}
		},
		"chunks and trailers both ways": func(t *testing.T, c *talk, side, k string) {
			c.say(k, "POST /echo HTTP/1.1\r\n{key}Transfer-Encoding: chunked\r\nTrailer: Mood\r\n\r\n5\r\nhello\r\n")
			c.say(k, "6\r\n world\r\n0\r\nMood: good\r\n\r\n")
			got, body := c.hear("POST")
			sum := sha256.Sum256([]byte("hello world"))
			want := fmt.Sprintf("%x good <nil>", sum[:4])
			if body != "hello world" || got.Trailer.Get("Sum") != want || got.Header.Get("Side") != side {
				t.Errorf("%q, trailers %v, want %s; %v", body, got.Trailer, want, got.Header)
			}
		},
		"Connection: close": func(t *testing.T, c *talk, side, k string) {
			c.say(k, "GET /x HTTP/1.1\r\n{key}Connection: close\r\n\r\n")
			if got, body := c.hear("GET"); !got.Close || body != side+" HTTP/1.1 /x " {
				t.Errorf("%v, %s", got, body)
			}
			c.ended()
		},
		"HTTP/1.0": func(t *testing.T, c *talk, side, k string) {
			c.say(k, "GET /x HTTP/1.0\r\n{key}\r\n")
			if _, body := c.hear("GET"); !strings.HasPrefix(body, side) {
				t.Errorf("%s", body)
			}
			c.ended()
		},
		"HTTP/1.0 that is kept alive": func(t *testing.T, c *talk, side, k string) {
			for range 2 {
				c.say(k, "GET /x HTTP/1.0\r\n{key}Connection: keep-alive\r\n\r\n")
				if _, body := c.hear("GET"); !strings.HasPrefix(body, side) {
					t.Errorf("%s", body)
				}
			}
		},
		"requests one behind the other, with different keys": func(t *testing.T, c *talk, _, _ string) {
			sides := []string{}
			for range 10 {
				for side, k := range both() {
					sides = append(sides, side)
					c.say(k, fmt.Sprintf("GET /%d HTTP/1.1\r\n{key}\r\n", len(sides)))
				}
			}
			for i, side := range sides {
				if _, body := c.hear("GET"); body != fmt.Sprintf("%s HTTP/1.1 /%d ", side, i+1) {
					t.Errorf("answer %d, of %s: %s", i+1, side, body)
				}
			}
		},
		"answers without a body": func(t *testing.T, c *talk, side, k string) {
			for _, line := range []string{"HEAD /x", "GET /status?204", "GET /status?304", "HEAD /status?200"} {
				c.say(k, line+" HTTP/1.1\r\n{key}\r\n")
				method, _, _ := strings.Cut(line, " ")
				got, body := c.hear(method)
				if got.Header.Get("Side") != side || body != "" || got.Close || strings.Contains(line, "?") && got.Header.Get("Etag") != `"1"` {
					t.Errorf("%s: %v, %q", line, got, body)
				}
			}
			c.say(k, "GET /x HTTP/1.1\r\n{key}\r\n") // the connection is in step
			if _, body := c.hear("GET"); body != side+" HTTP/1.1 /x " {
				t.Errorf("after them: %s", body)
			}
		},
		"events arrive one by one": func(t *testing.T, c *talk, side, k string) {
			c.say(k, "GET /events HTTP/1.1\r\n{key}\r\n")
			response, err := http.ReadResponse(c.Reader, nil)
			r.must(err)
			defer response.Body.Close()
			lines := bufio.NewReader(response.Body)
			for i := range 3 {
				line, err := lines.ReadString('\n')
				if err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("event %d: %q, %v", i, line, err)
				}
				_, _ = lines.ReadString('\n')
				apps[side].arrived <- struct{}{}
			}
		},
	} {
		for side, k := range both() {
			t.Run(name+"/"+side, func(t *testing.T) { f(t, r.talk(t), side, k) })
		}
	}
}

// The same, where it exists, over HTTP/2.
func TestTrailersAndEventsOverHTTP2(t *testing.T) {
	r, apps := peculiars(t)
	r.sidecar()
	r.ready()
	r.acked()
	client := &http.Client{Transport: http2Only(), Timeout: patience}
	for side, k := range both() {
		request, err := http.NewRequest(http.MethodPost, "http://"+r.address+":8080/echo", io.MultiReader(strings.NewReader("hello world")))
		r.must(err)
		request.Header.Set("baggage", "sd-routing-key="+k)
		request.Trailer = http.Header{"Mood": {"good"}}
		response, err := client.Do(request)
		r.must(err)
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if sum := sha256.Sum256(body); err != nil || response.Trailer.Get("Sum") != fmt.Sprintf("%x good <nil>", sum[:4]) || string(body) != "hello world" {
			t.Errorf("%s: %v, %q, trailers %v", side, err, body, response.Trailer)
		}
		request, err = http.NewRequest(http.MethodGet, "http://"+r.address+":8080/events", http.NoBody)
		r.must(err)
		request.Header.Set("baggage", "sd-routing-key="+k)
		response, err = client.Do(request)
		r.must(err)
		for i := range 3 {
			event := make([]byte, len("data: 0\n\n"))
			if _, err := io.ReadFull(response.Body, event); err != nil || string(event) != fmt.Sprintf("data: %d\n\n", i) {
				t.Fatalf("%s, event %d: %q, %v", side, i, event, err)
			}
			apps[side].arrived <- struct{}{}
		}
		_ = response.Body.Close()
	}
}

// However long an upload is, the proxy passes it on and does not keep it.
func TestLongUploadsPassInLittleMemory(t *testing.T) {
	const (
		long  = 160 << 20
		bound = 32 << 10 // KiB that Envoy may grow by, for four of them at once
	)
	r, _ := peculiars(t)
	sidecar := r.sidecar()
	r.ready()
	r.acked()
	before := peakKiB(t, sidecar.Process.Pid)
	ended := make(chan error)
	for side, k := range both() {
		for _, transport := range []*http.Transport{{}, http2Only()} {
			go func() {
				request, err := http.NewRequest(http.MethodPut, "http://"+r.address+":8080/sink", io.LimitReader(zeros{}, long))
				if err != nil {
					ended <- err
					return
				}
				request.Header.Set("baggage", "sd-routing-key="+k)
				got, err := do(transport, request)
				if err == nil && (got.Body != fmt.Sprint(long, nil) || got.Header.Get("Side") != side) {
					err = fmt.Errorf("%s: %+v", side, got)
				}
				ended <- err
			}()
		}
	}
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	after := peakKiB(t, sidecar.Process.Pid)
	t.Logf("%d MiB each; Envoy's memory at most %d KiB, before %d KiB", long>>20, after, before)
	if after-before > bound {
		t.Errorf("Envoy grew by %d KiB", after-before)
	}
}

type zeros struct{}

// Read is io.Reader.
func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// peakKiB is the most memory that the only child of a process has had.
func peakKiB(t *testing.T, parent int) int {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range threads {
		child, err := os.ReadFile(file)
		if err != nil || len(bytes.TrimSpace(child)) == 0 {
			continue
		}
		status, err := os.ReadFile("/proc/" + string(bytes.TrimSpace(child)) + "/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		n, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Fatal(errors.New("no VmHWM in " + string(status)))
		}
		return n
	}
	t.Fatal("the process has no child")
	return 0
}
