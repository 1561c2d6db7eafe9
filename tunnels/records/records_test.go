package records_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/records"
)

var quiet = slog.New(slog.DiscardHandler)

// until waits until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	wait.Eventually(t, time.Minute, what, func() error {
		if !holds() {
			return errors.New("it is not so")
		}
		return nil
	})
}

// roles are the tokens of these tests.
var roles = map[string]connect.Role{"proxy": connect.Recorder, "auditor": connect.Auditor, "manager": connect.Writer}

// bus is the server that there is, at an address that stays.
type bus struct {
	t       *testing.T
	dir, at string
	records embedded.Records
	server  *embedded.Server
}

func newBus(t *testing.T) *bus {
	return busWith(t, embedded.Records{Bytes: 8 << 20, Age: time.Hour})
}

func busWith(t *testing.T, records embedded.Records) *bus {
	b := &bus{t: t, dir: filepath.Join(t.TempDir(), "store"), at: "127.0.0.1:0", records: records}
	b.start()
	t.Cleanup(func() { b.server.Close() })
	return b
}

func (b *bus) start() {
	b.t.Helper()
	s, err := embedded.Start(embedded.Config{StoreDir: b.dir, Listen: b.at, Logger: quiet, Records: b.records,
		Authenticate: func(_ context.Context, token string) (connect.Role, error) {
			if role, is := roles[token]; is {
				return role, nil
			}
			return 0, errors.New("nobody")
		}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.server, b.at = s, s.Addr().String()
}

// as returns the configuration of a client of the bus.
func (b *bus) as(who string) connect.Config {
	file := filepath.Join(b.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(who), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return connect.Config{URL: "nats://" + b.at, Role: roles[who], Name: who, TokenFile: file, Logger: quiet}
}

// dial connects as a client.
func (b *bus) dial(who string) *nats.Conn {
	b.t.Helper()
	c, err := connect.Dial(b.as(who))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	until(b.t, who+" is connected", c.IsConnected)
	return c
}

// kept returns the records of the stream, as an auditor reads them.
func kept(t *testing.T, auditor *nats.Conn) (all []audit.Record) {
	t.Helper()
	for seq := 1; ; seq++ {
		answer, err := auditor.Request(connect.AuditorAPI+".STREAM.MSG.GET."+connect.RecordsStream, fmt.Appendf(nil, `{"seq":%d}`, seq), 10*time.Second)
		if err != nil {
			return nil // the bus is away
		}
		var m struct {
			Message *struct{ Data []byte }
		}
		if err := json.Unmarshal(answer.Data, &m); err != nil {
			t.Fatal(err)
		}
		if m.Message == nil {
			return all
		}
		var r audit.Record
		if err := json.Unmarshal(m.Message.Data, &r); err != nil {
			t.Fatalf("message %d is %q", seq, m.Message.Data)
		}
		all = append(all, r)
	}
}

// log opens a log of connections that sends its records to the bus too.
func (b *bus) log() *audit.Log {
	b.t.Helper()
	stream, err := records.Open(b.as("proxy"))
	if err != nil {
		b.t.Fatal(err)
	}
	l, err := audit.Open(audit.Config{Dir: b.t.TempDir(), Out: io.Discard, Sinks: []audit.Sink{stream}, Proxy: "proxy-0"})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(l.Close)
	return l
}

// pass records a connection.
func pass(t *testing.T, l *audit.Log, to string) {
	t.Helper()
	c, err := l.Begin(t.Context(), audit.Connection{Direction: audit.Outbound, Via: "carrier", User: "ada", From: "laptop", To: to})
	if err != nil {
		t.Fatal(err)
	}
	c.End(3, 4, audit.Closed)
}

func TestRecordsArriveAlsoThoseOfWhileTheBusWasAway(t *testing.T) {
	b := newBus(t)
	auditor, l := b.dial("auditor"), b.log()
	pass(t, l, "one:80")
	until(t, "both records are on the bus", func() bool { return len(kept(t, auditor)) == 2 })
	b.server.Close()
	const many = 300 // more than are under way at once
	for i := range many {
		pass(t, l, fmt.Sprintf("away-%d:80", i))
	}
	b.start()
	until(t, "all records are on the bus", func() bool { return len(kept(t, auditor)) >= 2*many+2 })
	ids := map[string]int{}
	for _, r := range kept(t, auditor) {
		if r.Proxy != "proxy-0" || r.User != "ada" || r.End != nil && r.End.Received != 4 {
			t.Errorf("a record is %+v", r)
		}
		ids[r.ID]++
	}
	if len(ids) != many+1 {
		t.Errorf("there are records of %d connections, not %d", len(ids), many+1)
	}
	for id, n := range ids {
		if n != 2 {
			t.Errorf("connection %s has %d records", id, n)
		}
	}
}

func TestARecordThatIsSentAgainIsThereOnce(t *testing.T) {
	b := newBus(t)
	stream, err := records.Open(b.as("proxy"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	one := []audit.Record{{Connection: audit.Connection{ID: "one"}}, {Connection: audit.Connection{ID: "one"}, End: &audit.End{}}}
	for range 2 {
		until(t, "the records are taken", func() bool { return stream.Append(t.Context(), one) == nil })
	}
	if all := kept(t, b.dial("auditor")); len(all) != 2 {
		t.Errorf("the stream has %+v", all)
	}
}

// What the bus has not on its disk is not taken for recorded.
func TestARecordRefusedByTheBusIsAnError(t *testing.T) {
	b := busWith(t, embedded.Records{})
	stream, err := records.Open(b.as("proxy"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	until(t, "the bus refuses the record", func() bool {
		err := stream.Append(t.Context(), []audit.Record{{Connection: audit.Connection{ID: "one"}}})
		if err == nil {
			t.Fatal("a bus that keeps no records has taken one")
		}
		return strings.Contains(err.Error(), "has not taken")
	})
}

// A proxy that was taken over hears nothing of what other proxies record.
func TestClientsDoNotReceiveRecordsOfOthers(t *testing.T) {
	b := newBus(t)
	auditor, l := b.dial("auditor"), b.log()
	heard := map[string]*nats.Subscription{}
	for _, who := range []string{"proxy", "auditor"} {
		c := b.dial(who)
		for _, subject := range []string{">", connect.RecordsSubject, "tunnel.*", "_INBOX.>", "$JS.>"} {
			if sub, err := c.SubscribeSync(subject); err == nil {
				heard[who+" on "+subject] = sub
			}
		}
		if err := c.FlushTimeout(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	pass(t, l, "one:80")
	until(t, "both records are on the bus", func() bool { return len(kept(t, auditor)) == 2 })
	for who, sub := range heard {
		if m, err := sub.NextMsg(20 * time.Millisecond); err == nil {
			t.Errorf("%s receives %s %s", who, m.Subject, m.Data)
		}
	}
}

// A compromised proxy can add records, and do nothing else; a client that reads them can only
// read.
func TestRolesHaveNoFurtherRights(t *testing.T) {
	b := newBus(t)
	if _, err := begin(t, b); err != nil {
		t.Fatal(err)
	}
	auditor := b.dial("auditor")
	pass(t, b.log(), "one:80")
	until(t, "both records are on the bus", func() bool { return len(kept(t, auditor)) == 2 })
	commands := []string{"STREAM.DELETE", "STREAM.PURGE", "STREAM.INFO", "STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.UPDATE", "STREAM.CREATE", "CONSUMER.CREATE"}
	for _, who := range []string{"proxy", "auditor"} {
		c := b.dial(who)
		for _, command := range commands {
			for _, place := range []string{"$JS.API.", connect.AuditorAPI + ".", connect.FollowerAPI + "."} {
				for _, stream := range []string{connect.RecordsStream, "ROUTING"} {
					subject := place + command + "." + stream
					if who == "auditor" && place == connect.AuditorAPI+"." && stream == connect.RecordsStream && (command == "STREAM.INFO" || command == "STREAM.MSG.GET") {
						continue // that is what he may
					}
					if answer, err := c.Request(subject, []byte(`{"seq":1}`), 20*time.Millisecond); err == nil {
						t.Errorf("%s is answered on %s: %s", who, subject, answer.Data)
					}
				}
			}
			// The answer to a permitted request is no command, and no record.
			mine := map[string]string{"proxy": connect.RecordsSubject, "auditor": connect.AuditorAPI + ".STREAM.INFO." + connect.RecordsStream}[who]
			if who == "auditor" {
				_ = c.PublishRequest(mine, connect.RecordsSubject, nil)
			}
			_ = c.PublishMsg(&nats.Msg{Subject: mine, Reply: "$JS.API." + command + "." + connect.RecordsStream, Data: []byte("{}"), Header: nats.Header{nats.MsgIdHdr: {"an attack"}}})
		}
		for _, subject := range []string{"routing.e.key.a", "anything", connect.RecordsSubject + ".more"} {
			_ = c.Publish(subject, []byte("{}"))
		}
		if err := c.FlushTimeout(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		for _, subject := range []string{">", connect.RecordsSubject, "_INBOX.>", "routing.>"} {
			sub, err := c.SubscribeSync(subject)
			if err != nil {
				continue
			}
			_ = c.FlushTimeout(10 * time.Second)
			if m, err := sub.NextMsg(20 * time.Millisecond); err == nil {
				t.Errorf("%s hears %s", who, m.Subject)
			}
		}
	}
	// One record more: that of the attack, which the proxy may write as any other.
	if all := kept(t, auditor); len(all) != 3 {
		t.Errorf("the stream has %+v", all)
	}
	js, err := natsjs.New(b.dial("manager"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "ROUTING")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.LastSeq; n != 1 {
		t.Errorf("the log has %d events", n)
	}
}

// begin creates a log with one event, which is not one of this project's.
func begin(t *testing.T, b *bus) (*natsjs.PubAck, error) {
	t.Helper()
	js, err := natsjs.New(b.dial("manager"))
	if err != nil {
		return nil, err
	}
	if _, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "ROUTING", Subjects: []string{"routing.e.>"}, MaxBytes: 1 << 20}); err != nil {
		return nil, err
	}
	return js.Publish(t.Context(), "routing.e.begin", []byte(strings.Repeat("x", 10)))
}
