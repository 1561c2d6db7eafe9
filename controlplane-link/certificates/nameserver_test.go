package certificates_test

import (
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"switchyard.dev/tests/port"
)

// secret is that of the TSIG key switchyard.
var secret = base64.StdEncoding.EncodeToString([]byte("a secret of a TSIG key, for tests"))

// nameserver is the authoritative nameserver of example.net, which takes RFC 2136 updates with TSIG, over UDP and TCP.
type nameserver struct {
	address                   string
	refuse                    atomic.Bool
	inserts, refused, queries atomic.Int64 // queries: of TXT records
	// before is called before each update, and changed after the insert of a record. They are set before the first one.
	before  func()
	changed func(dns.RR)

	mu    sync.Mutex
	all   []dns.RR
	cname map[string]string
}

func newNameserver(t *testing.T) *nameserver {
	t.Helper()
	n := &nameserver{address: fmt.Sprintf("127.0.0.1:%d", port.Of(t)), before: func() {}, changed: func(dns.RR) {}}
	packets, err := net.ListenPacket("udp", n.address)
	if err != nil {
		t.Fatal(err)
	}
	connections, err := net.Listen("tcp", n.address)
	if err != nil {
		t.Fatal(err)
	}
	accept := func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept } // updates too
	for _, s := range []*dns.Server{{PacketConn: packets}, {Listener: connections}} {
		s.Handler, s.TsigSecret, s.MsgAcceptFunc = n, map[string]string{"switchyard.": secret}, accept
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }() // until Shutdown
		<-started
		t.Cleanup(func() { _ = s.Shutdown() }) // the test is over
	}
	return n
}

// records are the TXT records.
func (n *nameserver) records() []dns.RR {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

func (n *nameserver) insert(r dns.RR) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, r)
}

// ServeDNS implements dns.Handler.
func (n *nameserver) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	if r.Opcode == dns.OpcodeUpdate {
		n.before()
		m.Rcode = n.update(r, w.TsigStatus())
		if t := r.IsTsig(); t != nil && m.Rcode == dns.RcodeSuccess {
			m.SetTsig(t.Hdr.Name, t.Algorithm, 300, int64(t.TimeSigned)) //nolint:gosec // a time
		}
	} else {
		n.answer(r, m)
	}
	_ = w.WriteMsg(m) // the client notices
}

// update applies an update, and returns its result.
func (n *nameserver) update(r *dns.Msg, signature error) int {
	switch {
	case r.IsTsig() == nil || signature != nil:
		return dns.RcodeNotAuth
	case n.refuse.Load():
		n.refused.Add(1)
		return dns.RcodeRefused
	case len(r.Question) != 1 || r.Question[0].Name != "example.net.":
		return dns.RcodeNotZone
	}
	for _, rr := range r.Ns {
		txt, is := rr.(*dns.TXT)
		switch rr.Header().Class {
		case dns.ClassINET:
			if !is {
				return dns.RcodeRefused
			}
			n.inserts.Add(1)
			n.insert(rr)
			n.changed(rr)
		case dns.ClassNONE:
			n.mu.Lock()
			n.all = slices.DeleteFunc(n.all, func(o dns.RR) bool {
				return is && o.Header().Name == rr.Header().Name && slices.Equal(o.(*dns.TXT).Txt, txt.Txt)
			})
			n.mu.Unlock()
		default:
			return dns.RcodeRefused
		}
	}
	return dns.RcodeSuccess
}

// answer answers a query.
func (n *nameserver) answer(r, m *dns.Msg) {
	q := r.Question[0]
	name := strings.ToLower(q.Name)
	m.Authoritative = true
	soa, _ := dns.NewRR("example.net. 60 IN SOA ns.example.net. ops.example.net. 1 60 60 60 60")
	if !dns.IsSubDomain("example.net.", name) {
		m.Rcode = dns.RcodeRefused
		return
	}
	if q.Qtype == dns.TypeSOA && name == "example.net." {
		m.Answer = append(m.Answer, soa)
		return
	}
	if q.Qtype == dns.TypeTXT {
		n.queries.Add(1)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if to := n.cname[name]; to != "" {
		rr, _ := dns.NewRR(name + " 60 IN CNAME " + to)
		m.Answer = append(m.Answer, rr)
		name = to
	}
	for _, rr := range n.all {
		if q.Qtype == dns.TypeTXT && rr.Header().Name == name {
			m.Answer = append(m.Answer, rr)
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = append(m.Ns, soa)
	}
}
