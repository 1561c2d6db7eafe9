package keeper_test

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/xds/routingkey"
	"switchyard.dev/xds/routingkey/keytest"
	"switchyard.dev/xds/translate"
)

var long = flag.Bool("long", false, "send all of the header matrix and ten times as many requests at random")

// withRule are those of the matrix's keys that have a rule.
func withRule() []string {
	return []string{"k1", "K1", "k9", "kt", "kb", "k1=", "k%31", "k1;p=1", "kë", "8080/k1", "sd-routing-key=k2"}
}

// readers returns a rig for requests that ask which key was read.
func readers(t *testing.T) (r *rig, routed map[string]string) {
	t.Helper()
	r = newRig(t)
	r.answerAll(r.app(8080))
	r.answerAll(r.fork("10.96.2.1:80"))
	routed = map[string]string{}
	for i, k := range withRule() {
		f := sandbox(k, "10.96.2.1:80", 8080)
		f.Sandbox = fmt.Sprintf("sb-%d", i)
		r.Board.Declare(f)
		routed[k] = translate.RoutedSandbox + f.Sandbox
	}
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.acked()
	return r, routed
}

// answerAll answers any request, over HTTP/1.1 and HTTP/2.
func (r *rig) answerAll(l net.Listener) {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols: protocols, ReadHeaderTimeout: patience, MaxHeaderBytes: 1 << 20,
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}
	go func() { _ = server.Serve(l) }()
	r.t.Cleanup(func() { _ = server.Close() })
}

// disagreement describes the defect of the answer to a request with a key, or returns "".
func disagreement(got reply, want string, routed map[string]string) string {
	side := routed[want]
	if side == "" {
		side = translate.RoutedBaseline
	}
	if got.Status != http.StatusOK {
		return fmt.Sprintf("status %d, want 200", got.Status)
	}
	if key := got.Header.Get(devmesh.KeyHeader); key != want {
		return fmt.Sprintf("the key is %.100q, want %.100q", key, want)
	}
	if got.Header.Get(translate.RoutedHeader) != side {
		return fmt.Sprintf("key %.100q is routed to %s, want %s", want, got.Header.Get(translate.RoutedHeader), side)
	}
	return ""
}

var asks = [2]string{"sd-explain", "1"}

// overBoth sends each form over HTTP/1.1 and over HTTP/2 and returns the answers.
func (r *rig) overBoth(forms []keytest.Form) (one, two []reply, err error) {
	var first [][]byte
	var second [][][2]string
	for _, f := range forms {
		lines := append(f.Lines[:len(f.Lines):len(f.Lines)], asks)
		first = append(first, linesOfGet("/", lines...))
		lower := make([][2]string, len(lines))
		for i, line := range lines {
			lower[i] = [2]string{strings.ToLower(line[0]), line[1]}
		}
		second = append(second, fieldsOfGet("/", lower...))
	}
	if one, err = overHTTP1(r.address+":8080", first); err != nil {
		return nil, nil, fmt.Errorf("over HTTP/1.1: %w", err)
	}
	if two, err = overHTTP2(r.address+":8080", second); err != nil {
		return nil, nil, fmt.Errorf("over HTTP/2: %w", err)
	}
	if len(one) != len(forms) {
		return nil, nil, fmt.Errorf("%d requests over HTTP/1.1 had %d answers", len(forms), len(one))
	}
	return one, two, nil
}

// A real Envoy reads every request of the matrix, over each protocol, as the
// table of answers has it, and so does the parser (see routingkey's tests).
// HTTP/3 is not listened for.
func TestEnvoyGivesTheWholeMatrixItsAnswers(t *testing.T) {
	r, routed := readers(t)
	cases := keytest.Matrix(*long)
	var mu sync.Mutex
	wrong := 0
	check := func(batch []keytest.Case) error {
		forms := make([]keytest.Form, len(batch))
		for i, c := range batch {
			forms[i] = c.Form
		}
		one, two, err := r.overBoth(forms)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i, c := range batch {
			for proto, got := range map[string]reply{"HTTP/1.1": one[i], "HTTP/2": two[i]} {
				if text := disagreement(got, c.Key, routed); text != "" {
					if wrong++; wrong <= 10 {
						t.Errorf("%s, %s: %s", c.Name, proto, text)
					}
				}
			}
		}
		return nil
	}
	if err := inBatches(cases, 64, check); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests, %d disagreements", 2*len(cases), wrong)
}

// inBatches calls f with parts of all, several at a time.
func inBatches[T any](all []T, size int, f func([]T) error) error {
	batches, errs := make(chan []T), make(chan error, 1)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for batch := range batches {
				if err := f(batch); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for start := 0; start < len(all); start += size {
		batches <- all[start:min(start+size, len(all))]
	}
	close(batches)
	workers.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// Requests at random, from pieces that parsers trip over: Envoy and the parser
// read the same key.
func TestEnvoyAndTheParserAgreeOnAnyHeaders(t *testing.T) {
	r, routed := readers(t)
	piece := rapid.SampledFrom([]string{
		"sd-routing-key", "sd-routing-key=", "sd-routing-key=k1", "=", ",", ";", " ", "\t", "k1", "K1", "x-", "%31", "é", "\xff", `"`, "a=b",
	})
	line := rapid.Custom(func(t *rapid.T) [2]string {
		name := rapid.SampledFrom([]string{routingkey.Baggage, routingkey.Tracestate, "X-Team", "x-other"}).Draw(t, "name")
		return [2]string{name, strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")}
	})
	request := rapid.Custom(func(t *rapid.T) keytest.Form {
		f := keytest.Form{Lines: rapid.SliceOfN(line, 0, 6).Draw(t, "lines")}
		f.Key = routingkey.Of(func(name string) []string {
			var values []string
			for _, l := range f.Lines {
				if strings.EqualFold(l[0], name) {
					values = append(values, l[1])
				}
			}
			return values
		}, keytest.CustomHeaders())
		return f
	})
	n, times, sent := 32, 1, 0
	if *long {
		times = 10
	}
	for range times {
		rapid.Check(t, func(t *rapid.T) {
			forms := rapid.SliceOfN(request, n, n).Draw(t, "requests")
			one, two, err := r.overBoth(forms)
			if err != nil {
				t.Fatal(err)
			}
			sent += 2 * n
			for i, f := range forms {
				for proto, got := range map[string]reply{"HTTP/1.1": one[i], "HTTP/2": two[i]} {
					if text := disagreement(got, f.Key, routed); text != "" {
						t.Fatalf("%q, %s: %s", f.Lines, proto, text)
					}
				}
			}
		})
	}
	t.Logf("%d requests, 0 disagreements", sent)
}

// A request with bytes in its headers that no header may contain is refused, over each
// protocol, whatever its other content. Bytes after such a byte are never read as another line.
func TestControlCharactersAreRefused(t *testing.T) {
	r, _ := readers(t)
	var bytes []byte
	for b := range byte(' ') {
		if b != '\t' && b != '\r' && b != '\n' {
			bytes = append(bytes, b)
		}
	}
	bytes = append(bytes, 0x7f)
	var all sync.WaitGroup
	for _, b := range bytes {
		for _, header := range []string{routingkey.Baggage, "x-unknown"} {
			odd := [2]string{header, "a=b" + string(b) + "c,sd-routing-key=k1"}
			all.Go(func() {
				one, err := overHTTP1(r.address+":8080", [][]byte{linesOfGet("/", odd, asks)})
				if err != nil || len(one) != 1 || one[0].Status != http.StatusBadRequest {
					t.Errorf("HTTP/1.1, %s with byte %#x: %v, %v", header, b, one, err)
				}
			})
			all.Go(func() {
				two, err := overHTTP2(r.address+":8080", [][][2]string{fieldsOfGet("/", odd, asks)})
				if err != nil || two[0].Status != 0 && two[0].Status != http.StatusBadRequest {
					t.Errorf("HTTP/2, %s with byte %#x: %v, %v", header, b, two, err)
				}
			})
		}
	}
	all.Wait()
}

// Limits that the W3C names are what must at least be passed on; more is read
// too, up to what the proxy takes in all.
func TestHeadersAreReadUpToTheProxysLimit(t *testing.T) {
	r, _ := readers(t)
	least := func(kib int) string { return strings.Repeat("a=0123456789abc,", kib<<10/16) + "sd-routing-key=k1" }
	send1 := func(kib int) ([]reply, error) {
		return overHTTP1(r.address+":8080", [][]byte{linesOfGet("/", [2]string{"baggage", least(kib)}, asks)})
	}
	// Over HTTP/2 Envoy takes fields of 256 KiB at most, in their form for the wire.
	send2 := func(kib int) ([]reply, error) {
		return overHTTP2(r.address+":8080", [][][2]string{fieldsOfGet("/", [2]string{"baggage", least(kib)}, asks)})
	}
	if one, err := send1(1022); err != nil || len(one) != 1 || one[0].Header.Get(devmesh.KeyHeader) != "k1" {
		t.Errorf("HTTP/1.1, 1022 KiB: %v, %v", one, err)
	}
	if two, err := send2(256); err != nil || two[0].Header.Get(devmesh.KeyHeader) != "k1" {
		t.Errorf("HTTP/2, 256 KiB: %v, %v", two, err)
	}
	if one, err := send1(1100); err != nil || len(one) != 1 || one[0].Status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("HTTP/1.1, 1100 KiB: %v, %v", one, err)
	}
	// HTTP/2 has the stream or the connection to refuse instead.
	if two, err := send2(1100); err == nil && two[0].Status != 0 && two[0].Status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("HTTP/2, 1100 KiB: %v", two)
	}
}
