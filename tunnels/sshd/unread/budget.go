package unread

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limit is the default limit of a Budget, in bytes. The heap grows to about twice that, since
// garbage is collected when it has doubled.
const Limit = 128 << 20

// interval is how many bytes are received between two checks of a Budget.
const interval = 2 << 20

// Ended describes a channel that was ended, or an SSH connection that was closed, because the budget was
// exhausted.
type Ended struct {
	// User is the user of the session, and About the channel as the proxy named it; empty: the SSH
	// connection was closed, with all of its channels.
	User, About string
	// Bytes estimates the unread bytes, and Stalled is for how long the channel had not been emptied.
	Bytes   int64
	Stalled time.Duration
}

// Error implements error.
func (e Ended) Error() string {
	return fmt.Sprintf("%d bytes were unread for %s and the proxy's memory for SSH is exhausted", e.Bytes, e.Stalled.Round(time.Millisecond))
}

// Budget counts the unread bytes of all sessions. It is safe for concurrent use.
type Budget struct {
	limit  int64
	report func(Ended)
	// received counts bytes since the last check.
	received atomic.Int64

	mu    sync.Mutex
	conns map[*Conn]struct{}
}

// New returns a Budget of limit bytes; 0: Limit. report is called for each channel that is ended, and
// for each connection that is closed.
func New(limit int64, report func(Ended)) *Budget {
	limit = cmp.Or(limit, Limit)
	return &Budget{limit: limit, report: report, conns: map[*Conn]struct{}{}}
}

// Conn returns a connection that counts its bytes until it is closed.
func (b *Budget) Conn(conn net.Conn) *Conn {
	c := &Conn{Conn: conn, budget: b, channels: map[*Channel]struct{}{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = struct{}{}
	return c
}

// Unread returns how many bytes are unread.
func (b *Budget) Unread() (total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		total += c.sum().bytes
	}
	return total
}

// arrived counts received bytes, and checks the budget now and then.
func (b *Budget) arrived(n int) {
	if b.received.Add(int64(n)) < interval {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.received.Load() >= interval {
		b.received.Store(0)
		b.check()
	}
}

// check ends channels until the budget suffices. Bytes of channels that are being ended do not count,
// but a client that does not read its connection can keep them from ending: where all bytes exceed
// twice the limit, connections are closed. b.mu is held.
func (b *Budget) check() {
	users := map[string]*usage{}
	for c := range b.conns {
		s := c.sum()
		if s.kept == 0 {
			continue
		}
		u := users[c.user]
		if u == nil {
			u = &usage{}
			users[c.user] = u
		}
		u.conns = append(u.conns, s)
		u.bytes += s.bytes
		u.kept += s.kept
	}
	for {
		most, total := largest(users, func(u *usage) int64 { return u.bytes })
		if total <= b.limit {
			break
		}
		most.relieve(b.report)
	}
	for {
		most, total := largest(users, func(u *usage) int64 { return u.kept })
		if total <= 2*b.limit {
			break
		}
		most.close(b.report)
	}
}

// largest returns the user with the most of something, and how much all users have.
func largest(users map[string]*usage, of func(*usage) int64) (most *usage, total int64) {
	for _, u := range users {
		if total += of(u); most == nil || of(u) > of(most) {
			most = u
		}
	}
	return most, total
}

// usage is what one user has unread: bytes without channels that are being ended, kept with them.
type usage struct {
	bytes, kept int64
	conns       []*sum
}

// sum is the state of a connection during a check.
type sum struct {
	conn *Conn
	// kept are unread bytes, bytes those in channels that are not being ended.
	kept, bytes int64
	// stalled are the channels that may hold them.
	stalled []*Channel
}

// relieve ends the channel that has been stalled longest. Where no channel is stalled, the client
// does not read its connection: then the connection with the most unread bytes is closed.
func (u *usage) relieve(report func(Ended)) {
	var from *sum
	var oldest, index int64
	for _, s := range u.conns {
		for i, c := range s.stalled {
			if since := c.since.Load(); from == nil || since < oldest {
				from, oldest, index = s, since, int64(i)
			}
		}
	}
	if from == nil {
		u.close(report)
		return
	}
	victim, share := from.stalled[index], from.bytes/int64(len(from.stalled))
	from.stalled = append(from.stalled[:index], from.stalled[index+1:]...)
	if len(from.stalled) == 0 {
		share = from.bytes
	}
	from.bytes -= share
	u.bytes -= share
	e := Ended{User: from.conn.user, About: victim.about, Bytes: share, Stalled: time.Since(time.Unix(0, oldest))}
	report(e)
	victim.end(e)
}

// close closes the connection with the most unread bytes.
func (u *usage) close(report func(Ended)) {
	s := slices.MaxFunc(u.conns, func(a, b *sum) int { return cmp.Compare(a.kept, b.kept) })
	report(Ended{User: s.conn.user, Bytes: s.kept})
	u.bytes, u.kept = u.bytes-s.bytes, u.kept-s.kept
	s.bytes, s.kept, s.stalled = 0, 0, nil
	delete(s.conn.budget.conns, s.conn)
	_ = s.conn.Close() // it is given up
}
