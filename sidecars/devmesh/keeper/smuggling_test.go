package keeper_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// record is all that one backend connection got, up to where it became a tunnel.
type record struct {
	fork   bool
	key    string // the fork's key
	mu     sync.Mutex
	stream []byte
	whole  []seen // requests over HTTP/2
}

// recorder is the applications on both sides.
type recorder struct {
	t   *testing.T
	mu  sync.Mutex
	all []*record
}

// serve answers on a listener, reading in a dialect.
func (rec *recorder) serve(l net.Listener, d dialect, k string, fork bool) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		r := &record{key: k, fork: fork}
		rec.mu.Lock()
		rec.all = append(rec.all, r)
		rec.mu.Unlock()
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			in := bufio.NewReader(c)
			if start, err := in.Peek(3); err == nil && string(start) == "PRI" {
				r.serveHTTP2(c, in)
				return
			}
			r.serveHTTP1(c, in, d)
		}()
	}
}

// peeked is a connection of which something was read already.
type peeked struct {
	net.Conn
	in io.Reader
}

// Read is io.Reader.
func (p peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

func (r *record) serveHTTP2(c net.Conn, in io.Reader) {
	(&http2.Server{}).ServeConn(peeked{c, in}, &http2.ServeConnOpts{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.whole = append(r.whole, seen{Method: q.Method, Target: q.RequestURI, Header: q.Header, Body: string(body)})
		w.Header().Set("X-Target", q.RequestURI)
	})})
}

// serveHTTP1 answers each request with its target. It accepts an upgrade for
// /accept, and does not wait for the body of one to /early.
func (r *record) serveHTTP1(c net.Conn, in io.Reader, d dialect) {
	buffer, pending, early := make([]byte, 16<<10), []byte(nil), false
	for {
		n, err := in.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.stream = append(r.stream, buffer[:n]...)
		r.mu.Unlock()
		pending = append(pending, buffer[:n]...)
		for len(pending) > 0 {
			s, size, err := d.read(pending)
			if s.Target == "/early" && !early {
				early = true
				confirm(c, s)
			}
			if errors.Is(err, errMore) {
				break
			}
			if err != nil {
				_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				return
			}
			if s.Target == "/accept" && len(s.Header["Upgrade"]) > 0 {
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_, _ = io.Copy(io.Discard, in)
				return
			}
			pending = pending[size:]
			if !early {
				confirm(c, s)
			}
			early = false
		}
	}
}

func confirm(c io.Writer, s seen) {
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Target: %s\r\n\r\nok", s.Target)
}

// crossings checks everything that the backends received: which requests are where they do not
// belong, or are not requests. And what the dialects read differently.
func (rec *recorder) crossings() (crossed, doubtful []string) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, r := range rec.all {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range r.whole {
			crossed = append(crossed, r.judge(s)...)
		}
		readings := make([]string, len(dialects()))
		for i, d := range dialects() {
			said, rest := r.read(d)
			for _, s := range said {
				crossed = append(crossed, r.judge(s)...)
			}
			readings[i] = fmt.Sprintf("%q, then %q", said, rest)
			// What is no HTTP from the start passes as bytes, and nobody reads it.
			if readings[i] != readings[0] || rest != "" && len(said) > 0 {
				doubtful = append(doubtful, fmt.Sprintf("%q is read as %s, and as %s", r.stream, readings[0], readings[i]))
			}
		}
	}
	return crossed, doubtful
}

// read returns the requests in the stream in a dialect, also one with an incomplete body, and
// the bytes after them that are not a request.
func (r *record) read(d dialect) (said []seen, rest string) {
	for at := 0; at < len(r.stream); {
		s, size, err := d.read(r.stream[at:])
		if s.Target != "" {
			said = append(said, s)
		}
		if errors.Is(err, errBad) {
			return said, string(r.stream[at:])
		}
		if err != nil {
			break
		}
		at += size
	}
	return said, ""
}

// judge returns why a request should not have been seen here.
func (r *record) judge(s seen) (wrong []string) {
	k := s.key()
	if r.fork != (k == r.key) {
		wrong = append(wrong, fmt.Sprintf("fork %v got key %q: %+v in %q", r.fork, k, s, r.stream))
	}
	if strings.Contains(s.Target, "hidden") && !strings.HasPrefix(s.Target, "/outer") {
		wrong = append(wrong, fmt.Sprintf("a body became a request: %+v", s))
	}
	if _, there := s.Header["X-Sd-Destination"]; there {
		wrong = append(wrong, fmt.Sprintf("the internal header got out: %+v", s))
	}
	return wrong
}

// smugglers returns a rig with backends that each read in a dialect: the first on port 8080,
// with the key k0, and so on.
func smugglers(t *testing.T) (*rig, *recorder) {
	t.Helper()
	r, rec := newRig(t), &recorder{t: t}
	for i, d := range dialects() {
		address := fmt.Sprintf("10.96.6.%d:80", i+1)
		go rec.serve(r.app(8080+i), d, smugglersKey(i), false)
		go rec.serve(r.fork(address), d, smugglersKey(i), true)
		r.Board.Declare(sandbox(smugglersKey(i), address, uint32(8080+i)))
	}
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.acked()
	return r, rec
}

func smugglersKey(i int) string { return fmt.Sprintf("k%d", i) }

// run is one attack on one backend.
type run struct {
	attack
	backend int
	keyed   bool // the outer request has the key, else the inner one
	late    bool // the connection is silent at first, and so goes by the keeper
}

// send returns the targets that were answered with 200, in order, and how many
// answers there were in all.
func (r *rig) send(a run) (targets []string, answers int, err error) {
	member := "sd-routing-key=" + smugglersKey(a.backend)
	outer, within := "Host: customer\r\n", "Host: customer\r\nbaggage: a=b,"+member+"\r\n"
	if a.keyed {
		outer, within = within, outer
	}
	words := strings.NewReplacer("{outer}", outer, "{inner}", within, "{key}", "baggage: "+member+"\r\n", "{member}", member)
	c, err := net.Dial("tcp", net.JoinHostPort(r.address, fmt.Sprint(8080+a.backend)))
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	deadline(c)
	if a.late {
		time.Sleep(200 * time.Millisecond) // the silence is what is tested
	}
	if _, err := io.WriteString(c, words.Replace(a.bytes)+"GET /end HTTP/1.1\r\n"+outer+"Connection: close\r\n\r\n"); err != nil {
		return nil, 0, err
	}
	reader := bufio.NewReader(c)
	for {
		// When nothing more comes, the rest of what was sent is somebody's body.
		_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return targets, answers, nil
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			return append(targets, "/accept"), answers + 1, nil
		}
		if response.StatusCode < 200 {
			continue
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if err != nil {
			return targets, answers, nil
		}
		answers++
		if response.StatusCode == http.StatusOK {
			targets = append(targets, response.Header.Get("X-Target"))
		}
		if response.Close {
			return targets, answers, nil
		}
	}
}

// inOrder reports whether the answers are some of those that may be, in order.
func inOrder(got []string, may string) bool {
	allowed := append(strings.Fields(may), "/end")
	for _, target := range got {
		i := slices.Index(allowed, target)
		if i < 0 {
			return false
		}
		allowed = allowed[i+1:]
	}
	return true
}

// Whatever a client sends, each backend gets only requests that the proxy has
// routed to it, and reads them as the proxy did, strict or not.
func TestNoRequestIsSmuggledPastTheProxy(t *testing.T) {
	r, rec := smugglers(t)
	var all []run
	for _, a := range attacks() {
		for i := range dialects() {
			all = append(all, run{a, i, false, false}, run{a, i, true, false}, run{a, i, true, true}, run{a, i, false, true})
		}
	}
	var mu sync.Mutex
	var wrong []string
	var answered, refused atomic.Int64
	work := make(chan run)
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for a := range work {
				targets, answers, err := r.send(a)
				answered.Add(int64(len(targets)))
				refused.Add(int64(answers - len(targets)))
				if err != nil || !inOrder(targets, a.targets) || answers > len(strings.Fields(a.targets))+1 {
					mu.Lock()
					wrong = append(wrong, fmt.Sprintf("%s, backend %d, outer keyed %v, late %v: %v, %d answers, %q", a.name, a.backend, a.keyed, a.late, err, answers, targets))
					mu.Unlock()
				}
			}
		})
	}
	for _, a := range all {
		work <- a
	}
	close(work)
	workers.Wait()
	crossed, doubtful := rec.crossings()
	r.report("HTTP/1", len(all), append(wrong, doubtful...), crossed)
	t.Logf("%d requests answered, %d refused", answered.Load(), refused.Load())
	if answered.Load() < int64(len(all))/4 {
		t.Error("nearly all is refused: this shows nothing")
	}
}

// report counts, and quotes the first few.
func (r *rig) report(what string, n int, wrong, crossed []string) {
	r.t.Helper()
	r.t.Logf("%s: %d connections with hostile requests, %d disagreements, %d crossings", what, n, len(wrong), len(crossed))
	for _, list := range [][]string{wrong, crossed} {
		slices.Sort(list)
		for _, text := range list[:min(len(list), 20)] {
			r.t.Errorf("%.1200s", text)
		}
	}
}

// Over HTTP/2 nothing that has a meaning only in HTTP/1 gets a meaning.
func TestNoRequestIsSmuggledInHTTP2(t *testing.T) {
	r, rec := smugglers(t)
	var mu sync.Mutex
	var wrong []string
	var all sync.WaitGroup
	n := 0
	for _, a := range attacks2() {
		for _, keyed := range []bool{true, false} {
			n++
			all.Go(func() {
				got, err := bodiesOverHTTP2(r.address+":8080", [][][2]string{a.request(keyed)}, []string{a.body})
				served := err == nil && got[0].Status == http.StatusOK
				if err != nil || served == a.refused {
					mu.Lock()
					wrong = append(wrong, fmt.Sprintf("%s, keyed %v: %v, %v", a.name, keyed, err, got))
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	crossed, doubtful := rec.crossings()
	r.report("HTTP/2", n, append(wrong, doubtful...), crossed)
}

// request returns the fields on the wire. A name with a plus sign before is added
// where another would be replaced.
func (a attack2) request(keyed bool) [][2]string {
	member := "sd-routing-key=" + smugglersKey(0)
	fields := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "customer"}, {":path", "/outer"}}
	if keyed {
		fields = append(fields, [2]string{"baggage", member})
		member = "a=b"
	}
	for _, f := range a.fields {
		f = [2]string{strings.ReplaceAll(f[0], "{member}", member), strings.ReplaceAll(f[1], "{member}", member)}
		i := slices.IndexFunc(fields, func(have [2]string) bool { return have[0] == f[0] && strings.HasPrefix(f[0], ":") })
		if f[0] = strings.TrimPrefix(f[0], "+"); i >= 0 {
			fields[i] = f
		} else {
			fields = append(fields, f)
		}
	}
	return fields
}
