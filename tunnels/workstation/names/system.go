package names

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"switchyard.dev/eventbus/wake"
)

// SystemFile is the file with the resolvers of a machine.
const SystemFile = "/etc/resolv.conf"

const (
	// eachTry bounds a query to one resolver.
	eachTry = 3 * time.Second
	// lookAgain is how often the file is read.
	lookAgain = time.Second
)

// System are the resolvers of the machine. It is safe for concurrent use.
type System struct {
	file    string
	control func(network, address string, c syscall.RawConn) error

	mu        sync.Mutex
	resolvers []netip.Addr
}

// NewSystem reads the resolvers from a file such as SystemFile. control is that of a net.Dialer,
// which exempts this program's queries from redirection; it may be nil.
func NewSystem(file string, control func(network, address string, c syscall.RawConn) error) (*System, error) {
	s := &System{file: file, control: control}
	found, err := read(file)
	if err != nil {
		return nil, err
	}
	s.resolvers = found
	return s, nil
}

// read returns the resolvers of a file.
func read(file string) (out []netip.Addr, err error) {
	config, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the resolvers of this machine: %w", err)
	}
	for _, text := range config.Servers {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a.Unmap())
		}
	}
	if len(out) == 0 {
		out = append(out, netip.MustParseAddr("127.0.0.1")) // as the C library has it
	}
	return out, nil
}

// Resolvers returns the resolvers.
func (s *System) Resolvers() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.resolvers)
}

// Follow reads the file again as it changes, and calls changed then, until ctx ends. When the
// file cannot be read, as while it is written, the resolvers stay as they were.
func (s *System) Follow(ctx context.Context, changed func()) {
	for wake.Sleep(ctx, lookAgain) {
		found, err := read(s.file)
		if err != nil {
			continue
		}
		s.mu.Lock()
		same := slices.Equal(found, s.resolvers)
		s.resolvers = found
		s.mu.Unlock()
		if !same {
			changed()
		}
	}
}

// Ask queries one resolver after the other, over udp or tcp like the original query.
func (s *System) Ask(ctx context.Context, network string, q *dns.Msg) (*dns.Msg, error) {
	client := &dns.Client{Net: network, Timeout: eachTry, UDPSize: dns.MaxMsgSize, Dialer: &net.Dialer{Timeout: eachTry, Control: s.control}}
	ask := q.Copy()
	ask.Id = dns.Id()
	var last error
	for _, a := range s.Resolvers() {
		answer, _, err := client.ExchangeContext(ctx, ask, netip.AddrPortFrom(a, 53).String())
		if err == nil {
			answer.Id = q.Id
			return answer, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, last
}
