package unread_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/sshd/unread"
)

const patience = time.Minute

// proxy is a Budget with its reports.
type proxy struct {
	testing.TB
	budget *unread.Budget
	host   ssh.Signer

	mu    sync.Mutex
	ended []unread.Ended
}

func newProxy(t *testing.T, limit int64) *proxy {
	t.Helper()
	p := &proxy{TB: t}
	p.budget = unread.New(limit, func(e unread.Ended) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = append(p.ended, e)
	})
	_, key, err := ed25519.GenerateKey(rand.Reader)
	p.must(err)
	p.host, err = ssh.NewSignerFromKey(key)
	p.must(err)
	return p
}

func (p *proxy) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// reports returns what the budget has ended.
func (p *proxy) reports() []unread.Ended {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]unread.Ended(nil), p.ended...)
}

// unread waits until the budget counts at least and at most so many bytes.
func (p *proxy) unread(least, most int64) {
	p.Helper()
	wait.Eventually(p, patience, "the unread bytes", func() error {
		if n := p.budget.Unread(); n < least || n > most {
			return fmt.Errorf("%d bytes are unread, not %d to %d", n, least, most)
		}
		return nil
	})
}

// session is an SSH connection of a user, both of its ends.
type session struct {
	*proxy
	counted *unread.Conn
	client  ssh.Conn
	wire    *stoppable
	opens   <-chan ssh.NewChannel
}

// stoppable is the client's end of a connection, which takes nothing more once it is stopped.
type stoppable struct {
	net.Conn
	stop, closed chan struct{}
	once         sync.Once
}

func (s *stoppable) Read(p []byte) (int, error) {
	select {
	case <-s.stop:
		<-s.closed
		return 0, net.ErrClosed
	default:
		return s.Conn.Read(p[:min(len(p), 4096)])
	}
}

func (s *stoppable) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

func (p *proxy) session(user string) *session {
	p.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	defer l.Close()
	raw, err := net.Dial("tcp", l.Addr().String())
	p.must(err)
	here, err := l.Accept()
	p.must(err)
	p.must(raw.(*net.TCPConn).SetReadBuffer(4096))
	p.must(here.(*net.TCPConn).SetWriteBuffer(4096))
	s := &session{proxy: p, counted: p.budget.Conn(here), wire: &stoppable{Conn: raw, stop: make(chan struct{}), closed: make(chan struct{})}}
	shaken := make(chan error, 1)
	go func() {
		config := &ssh.ServerConfig{NoClientAuth: true}
		config.AddHostKey(p.host)
		_, channels, requests, err := ssh.NewServerConn(s.counted, config)
		s.opens = channels
		go ssh.DiscardRequests(requests)
		shaken <- err
	}()
	client, channels, requests, err := ssh.NewClientConn(s.wire, "", &ssh.ClientConfig{User: user, HostKeyCallback: ssh.FixedHostKey(p.host.PublicKey())})
	p.must(err)
	p.must(<-shaken)
	go ssh.DiscardRequests(requests)
	go func() {
		for c := range channels {
			_ = c.Reject(ssh.Prohibited, "")
		}
	}()
	s.client = client
	s.counted.Own(user)
	p.Cleanup(func() {
		_ = s.client.Close()
		_ = s.counted.Close()
	})
	return s
}

// channel is one of a session, both of its ends. It is not read before read is called.
type channel struct {
	*session
	server *unread.Channel
	client ssh.Channel
	// cut is the reason with which the connection behind it was ended, left is closed once both
	// ends have closed the channel.
	cut  chan error
	left chan struct{}
	got  bytes.Buffer
}

func (s *session) open(about string) *channel {
	s.Helper()
	c := &channel{session: s, cut: make(chan error, 1), left: make(chan struct{})}
	opened := make(chan error, 1)
	go func() {
		one := <-s.opens
		mark := s.counted.Mark()
		there, requests, err := one.Accept()
		if err == nil {
			go ssh.DiscardRequests(requests)
			c.server = s.counted.Channel(there, about, mark, func() { close(c.left) })
			c.server.OnEnd(func(why error) { c.cut <- why })
		}
		opened <- err
	}()
	client, requests, err := s.client.OpenChannel("direct-tcpip", nil)
	s.must(err)
	s.must(<-opened)
	go ssh.DiscardRequests(requests)
	c.client = client
	return c
}

// content is what a channel sends.
func content(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.Read(data) // it never fails
	return data
}

// fill writes data in chunks, and returns it.
func (c *channel) fill(size, chunk int) []byte {
	c.Helper()
	data := content(size)
	for rest := data; len(rest) > 0; {
		n := min(chunk, len(rest))
		if _, err := c.client.Write(rest[:n]); err != nil {
			c.Fatal(err)
		}
		rest = rest[n:]
	}
	return data
}

// read reads the channel until its end, in the background. The function that it returns waits for the
// end, compares all data with want, and closes the channel.
func (c *channel) read() func(want []byte) {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(&c.got, c.server)
		done <- err
	}()
	return func(want []byte) {
		c.Helper()
		c.must(c.client.CloseWrite())
		if err := <-done; err != nil || !bytes.Equal(c.got.Bytes(), want) {
			c.Errorf("%d bytes were read of %d, or others: %v", c.got.Len(), len(want), err)
		}
		c.must(c.server.Close())
		c.over()
	}
}

// over waits until both ends of the channel are closed.
func (c *channel) over() {
	c.Helper()
	select {
	case <-c.left:
	case <-time.After(patience):
		c.Fatal("the channel is not closed")
	}
}

// TestUnreadBytesAreCounted fills channels below the budget: the bytes count until they are read, with
// the headers of small packets, and all arrive.
func TestUnreadBytesAreCounted(t *testing.T) {
	const size, small = 3 << 19, 1 << 12
	p := newProxy(t, 16<<20)
	var all []*channel
	var sent [][]byte
	var total int64
	for i := range 2 {
		s := p.session(fmt.Sprintf("user-%d", i))
		p.unread(total, total+total/50)
		for range 2 {
			c := s.open("somewhere")
			all, sent = append(all, c), append(sent, c.fill(size, 100<<10))
		}
		total += 2 * size
		p.unread(total, total+total/50)
	}
	narrow := all[0].session.open("somewhere")
	all, sent = append(all, narrow), append(sent, narrow.fill(small, 1))
	total += 30 * small // a packet has more than that beside its data
	p.unread(total, total+total/50+30*small)
	for _, c := range all[:4] { // half of each, while no channel is empty
		_, err := io.CopyN(&c.got, c.server, size/2)
		p.must(err)
	}
	total -= 2 * size
	p.unread(total, total+total/50+30*small)
	var ends []func([]byte)
	for _, c := range all {
		ends = append(ends, c.read())
	}
	p.unread(0, 0)
	for i, end := range ends {
		end(sent[i])
	}
	if ended := p.reports(); len(ended) > 0 {
		t.Errorf("below the budget these were ended: %v", ended)
	}
}

// TestAConnectionThatIsClosedCountsNoMore closes one with unread bytes.
func TestAConnectionThatIsClosedCountsNoMore(t *testing.T) {
	p := newProxy(t, 0)
	s := p.session("ada")
	s.open("somewhere").fill(1<<20, 1<<15)
	p.unread(1<<20, 2<<20)
	p.must(s.counted.Close())
	p.unread(0, 0)
}

// TestTheLongestStalledChannelEnds exhausts the budget: the user with the most unread bytes loses the
// channel that has been stalled longest, and nothing else is lost.
func TestTheLongestStalledChannelEnds(t *testing.T) {
	const window, limit = 2 << 20, 6 << 20
	p := newProxy(t, limit)
	carol, bob := p.session("carol").open("carol's"), p.session("bob").open("bob's")
	his := bob.fill(window/2, 1<<15) // stalled longer than any channel of ada, the user with more unread bytes
	ada, more := p.session("ada"), p.session("ada")
	first, second, third := ada.open("first"), ada.open("second"), more.open("third")
	begun := first.fill(100, 100) // read, so that the second is the oldest
	if n, err := first.server.Read(make([]byte, 200)); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	kept := map[*channel][]byte{first: append(begun, first.fill(window-200, 1<<15)...), third: third.fill(window, 1<<15), bob: his}
	first.got.Write(begun)
	var hers []byte
	go func() {
		for err := error(nil); err == nil; {
			_, err = second.client.Write(make([]byte, 1<<15))
		}
	}()
	for deadline := time.Now().Add(patience); len(p.reports()) == 0; {
		hers = append(hers, carol.fill(1<<17, 1<<15)...)
		if _, err := io.CopyN(&carol.got, carol.server, 1<<17); err != nil || time.Now().After(deadline) {
			t.Fatalf("no channel was ended, while %d bytes are unread: %v", p.budget.Unread(), err)
		}
	}
	second.over()
	var e unread.Ended
	if err := <-second.cut; !errors.As(err, &e) || e.User != "ada" || e.About != "second" || e.Bytes < window/2 || e.Bytes > 2*window || e.Stalled <= 0 {
		t.Errorf("the connection behind the channel ends with %#v", err)
	}
	p.unread(limit-2*window, limit)
	kept[carol] = append(hers, carol.fill(1<<17, 1<<15)...)
	for c, want := range kept {
		c.read()(want)
	}
	p.unread(0, 0)
	if ended := p.reports(); len(ended) != 1 || ended[0] != e {
		t.Errorf("ended were %v", ended)
	}
}

// TestAClientThatDoesNotReadIsClosed has a client fill windows while it does not read its
// connection. The proxy reads the channels, but its acknowledgements do not leave. So none of them is
// stalled, and the connection is closed, also if a stalled channel beside them has been ended before.
func TestAClientThatDoesNotReadIsClosed(t *testing.T) {
	for what, stalled := range map[string]int{"no channel is stalled": 0, "one channel is stalled": 1} {
		t.Run(what, func(t *testing.T) {
			p := newProxy(t, 1<<20)
			s := p.session("ada")
			var all []*channel
			for i := range 8 {
				c := s.open(fmt.Sprintf("channel %d", i))
				if all = append(all, c); i >= stalled {
					go func() { _, _ = io.Copy(io.Discard, c.server) }() // until the connection is closed
				}
			}
			close(s.wire.stop)
			go func() { _, _ = all[7].server.Write(make([]byte, 1<<24)) }() // far more than the connection buffers
			for _, c := range all {
				go func() { _, _ = c.client.Write(make([]byte, 2<<20)) }() // the connection is closed before
			}
			wait.Eventually(t, patience, "the connection is closed", func() error {
				for _, e := range p.reports() {
					if e.User == "ada" && e.About == "" {
						return nil
					}
				}
				return fmt.Errorf("%d bytes count, and ended were %v", p.budget.Unread(), p.reports())
			})
			p.unread(0, 0)
		})
	}
}

// TestStderrEndsAChannel sends what no connection over TCP has. The reason is also given to one that
// asks for it afterwards.
func TestStderrEndsAChannel(t *testing.T) {
	p := newProxy(t, 0)
	c := p.session("ada").open("somewhere")
	_, err := c.client.Stderr().Write([]byte("more"))
	p.must(err)
	if err := <-c.cut; err == nil {
		t.Error("the connection ends without a reason")
	}
	late := make(chan error, 1)
	c.server.OnEnd(func(why error) { late <- why })
	if err := <-late; err == nil {
		t.Error("one that asks afterwards gets no reason")
	}
	c.over()
}
