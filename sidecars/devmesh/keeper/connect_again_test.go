package keeper_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// refuse answers connections to an address with a reset: of every so many the first one.
func (r *rig) refuse(address string, every uint32) {
	r.t.Helper()
	host, _, err := net.SplitHostPort(address)
	r.must(err)
	conn, err := nftables.New()
	r.must(err)
	table := conn.AddTable(&nftables.Table{Name: "refuse" + strings.ReplaceAll(host, ".", "_"), Family: nftables.TableFamilyIPv4})
	chain := conn.AddChain(&nftables.Chain{Name: "input", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter})
	const syn, synAck = 0x02, 0x12
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Payload{Base: expr.PayloadBaseNetworkHeader, DestRegister: 1, Offset: 16, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: net.ParseIP(host).To4()},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{6}},
		&expr.Payload{Base: expr.PayloadBaseTransportHeader, DestRegister: 1, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{synAck}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{syn}},
		&expr.Numgen{Register: 1, Type: 0, Modulus: every},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)},
		&expr.Reject{Type: 1},
	}})
	r.must(conn.Flush())
	r.t.Cleanup(func() {
		conn.DelTable(table)
		r.must(conn.Flush())
	})
}

// keptBody is the number of bytes of a body that the sidecar keeps (package translate).
const keptBody = 16 << 10

// While a pod of a fork ends, some connections to its Service are refused. The sidecar
// connects again, and to the fork: a request that is not known to be for one would go to the
// baseline. A request with a longer body than the sidecar keeps is refused with 503 instead, if too much
// of it has arrived, and never cut short.
func TestAForkThatRefusesAConnectionIsConnectedToAgain(t *testing.T) {
	const address = "10.96.8.1:80"
	r := start(t, sandbox("k1", address, 8080))
	r.serveHTTP(r.fork(address), "fork")
	r.refuse(address, 2)
	small, large := []byte("small"), bytes.Repeat([]byte("large"), 1<<20)
	for name, transport := range map[string]*http.Transport{"h1": {}, "h2": http2Only()} {
		for _, body := range [][]byte{nil, small, large} {
			t.Run(fmt.Sprintf("%s with %d bytes", name, len(body)), func(t *testing.T) {
				for range 5 {
					request, err := http.NewRequest(http.MethodPost, "http://"+r.address+":8080/", bytes.NewReader(body))
					r.must(err)
					request.Header.Set("baggage", "sd-routing-key=k1")
					got, err := do(transport, request)
					gaveUp := got.Status == http.StatusServiceUnavailable && len(body) > keptBody
					if err != nil || (got.Status != http.StatusOK || got.Side != "fork") && !gaveUp {
						t.Errorf("%d by %q, %v; want 200 by the fork", got.Status, got.Side, err)
					}
					transport.CloseIdleConnections()
				}
			})
		}
	}
}

// When no try succeeds, the answer is 503 and never the baseline.
func TestAForkThatRefusesEveryConnectionIsNotReplacedByTheBaseline(t *testing.T) {
	const address = "10.96.8.1:80"
	r := start(t, sandbox("k1", address, 8080))
	r.must(r.fork(address).Close())
	for name, transport := range map[string]*http.Transport{"h1": {}, "h2": http2Only()} {
		request, err := http.NewRequest(http.MethodGet, "http://"+r.address+":8080/", nil)
		r.must(err)
		request.Header.Set("baggage", "sd-routing-key=k1")
		answer, err := transport.RoundTrip(request)
		r.must(err)
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("sd-reason") != "destination-unreachable" {
			t.Errorf("%s: %s, sd-reason %q; want 503, destination-unreachable", name, answer.Status, answer.Header.Get("sd-reason"))
		}
	}
}

// The answer is the same when a body outgrows the buffer between two tries.
func TestALongBodyForAForkThatRefusesEveryConnectionIsRefused(t *testing.T) {
	const address = "10.96.8.1:80"
	r := start(t, sandbox("k1", address, 8080))
	r.must(r.fork(address).Close())
	for name, transport := range map[string]*http.Transport{"h1": {}, "h2": http2Only()} {
		for range 10 {
			body, write := io.Pipe()
			go func() {
				_, _ = write.Write([]byte("small"))
				time.Sleep(5 * time.Millisecond) // a first try has failed, and the next is due
				_, err := write.Write(make([]byte, 4*keptBody))
				_ = write.CloseWithError(err)
			}()
			request, err := http.NewRequest(http.MethodPost, "http://"+r.address+":8080/", body)
			r.must(err)
			request.Header.Set("baggage", "sd-routing-key=k1")
			answer, err := transport.RoundTrip(request)
			if err != nil {
				continue // HTTP/1.1: the answer came while the body was sent
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("sd-reason") != "destination-unreachable" {
				t.Errorf("%s: %s, sd-reason %q; want 503, destination-unreachable", name, answer.Status, answer.Header.Get("sd-reason"))
			}
		}
	}
}
