package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// stateFact states a fact until it is recorded, as a controller does.
func stateFact(ctx context.Context, log eventbus.Log, f event.Fact) error {
	for {
		newest, _, err := log.Newest(ctx, f.Key)
		if err == nil && newest.Fact.Data != nil && event.Same(newest.Fact, f) {
			return nil
		}
		if err == nil {
			_, err = log.Append(ctx, f, newest.Pos.Seq)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// readUpTo reads every event up to a sequence, and reads on behind the last it has when the
// reading breaks off.
func readUpTo(ctx context.Context, log eventbus.Reader, end uint64) ([]event.Stored, error) {
	var all []event.Stored
	var at event.Pos
	var err error
	for ctx.Err() == nil {
		var c eventbus.Cursor
		if c, err = log.Read(ctx, at); err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		for err == nil && at.Seq < end {
			var events []event.Stored
			if events, err = c.Next(ctx); len(events) > 0 {
				all, at = append(all, events...), events[len(events)-1].Pos
			}
		}
		c.Close()
		if at.Seq >= end {
			return all, nil
		}
	}
	return all, errors.Join(ctx.Err(), err)
}

// TestTheLossOfOneOfThreeServersIsNotNoticed: with the rights that eventbus/README.md gives
// them, and no others, the manager writes and a route server reads while a server is lost,
// and every fact arrives once.
func TestTheLossOfOneOfThreeServersIsNotNoticed(t *testing.T) {
	const writers, facts = 8, 60
	c := startClusterWith(t, (*cluster).trustCertificates)
	writer, _ := c.dial(t, manager)
	reader, _ := c.dial(t, routeServer)
	begun, err := writer.Begin(t.Context(), event.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	failed := make(chan error, writers)
	half := make(chan struct{}, writers)
	for w := range writers {
		all.Go(func() {
			for n := range facts {
				if n == facts/2 {
					half <- struct{}{}
				}
				if err := stateFact(ctx, writer, logtest.Fact(fmt.Sprint("k", w), n)); err != nil {
					failed <- fmt.Errorf("fact %d of k%d: %w", n, w, err)
					return
				}
			}
		})
	}
	var read []event.Stored
	var readErr error
	var reading sync.WaitGroup
	reading.Go(func() { read, readErr = readUpTo(ctx, reader, writers*facts) })
	select {
	case <-half:
	case <-ctx.Done():
	}
	c.stop(c.leader(t))
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	reading.Wait()
	if readErr != nil || len(read) != writers*facts {
		t.Fatalf("the reader has %d events of %d: %v", len(read), writers*facts, readErr)
	}
	for i, e := range read {
		if e.Pos != (event.Pos{Epoch: begun.Epoch, Seq: uint64(i + 1)}) {
			t.Fatalf("event %d is at %v", i+1, e.Pos)
		}
	}
	anotherLeads(t, c, read[len(read)-1].Pos)
	whatIsOldIsForgotten(t, writer, reader)
}

// anotherLeads makes a new leader, with more room for the log, verify and take over the log.
func anotherLeads(t *testing.T, c *cluster, tip event.Pos) {
	t.Helper()
	_, conn := c.dial(t, manager)
	log, err := jetstream.New(jetstream.Config{Conn: conn, Replicas: len(c.nodes), MaxBytes: 300 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if mark, err := log.Begin(t.Context(), event.Mark{}); err != nil || mark.Pos != tip {
		t.Errorf("another leader finds %v, want %v: %v", mark.Pos, tip, err)
	}
	if kept, err := log.Kept(t.Context()); err != nil || kept.MaxBytes != 300<<20 {
		t.Errorf("the log may take %d bytes: %v", kept.MaxBytes, err)
	}
}

// whatIsOldIsForgotten has the writer forget, and begin a new epoch, and the reader see both.
func whatIsOldIsForgotten(t *testing.T, writer, reader *jetstream.Log) {
	t.Helper()
	f, err := reader.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	floor, err := writer.Append(t.Context(), event.Fact{
		Key: event.LogFloor, Time: time.Now(), Cause: event.Cause{Manager: "test"}, Data: &factv1.Floor{Reason: "test"},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Forget(t.Context(), floor.Pos); err != nil {
		t.Errorf("the writer forgets: %v", err)
	}
	if history, err := reader.HistoryOf(t.Context(), event.LogFloor); err != nil || len(history) != 1 {
		t.Errorf("the reader finds %d floors: %v", len(history), err)
	}
	if kept, err := reader.Kept(t.Context()); err != nil || kept.Floor != floor.Pos {
		t.Errorf("the log begins at %v, want %v: %v", kept.Floor, floor.Pos, err)
	}
	if _, err := writer.Restart(t.Context(), floor.Epoch); err != nil {
		t.Fatalf("the writer begins anew: %v", err)
	}
	for err == nil {
		_, err = f.Next(t.Context())
	}
	if !errors.Is(err, eventbus.ErrEpochEnded) {
		t.Errorf("the reader is told %v", err)
	}
}

// TestUsersOfTheREADMEMayDoNothingElse: neither by calls outside their rights, nor by what the
// servers do for them.
func TestUsersOfTheREADMEMayDoNothingElse(t *testing.T) {
	c := startClusterWith(t, (*cluster).trustCertificates)
	writer, writing := c.dial(t, manager)
	_, reading := c.dial(t, routeServer)
	begun, err := writer.Begin(t.Context(), event.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := writer.Append(t.Context(), logtest.Fact("a", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	fact := "routing." + begun.Epoch + ".key.forged"
	calls := []string{
		"STREAM.CREATE.ROUTING", "STREAM.UPDATE.ROUTING", "STREAM.PURGE.ROUTING", "STREAM.DELETE.ROUTING", "STREAM.MSG.DELETE.ROUTING",
		"STREAM.RESTORE.ROUTING", "STREAM.LEADER.STEPDOWN.ROUTING", "STREAM.INFO.OTHER", "STREAM.NAMES", "STREAM.LIST", "INFO",
		"CONSUMER.CREATE.ROUTING", "CONSUMER.CREATE.ROUTING.c", "CONSUMER.CREATE.ROUTING.c.other.>", "CONSUMER.CREATE.OTHER.c.routing.>",
		"CONSUMER.DURABLE.CREATE.ROUTING.c", "CONSUMER.NAMES.ROUTING", "CONSUMER.LIST.ROUTING", "CONSUMER.PAUSE.ROUTING.c",
	}
	for _, call := range calls {
		refused(t, reading, "$JS.API."+call)
		refused(t, reading, connect.FollowerAPI+"."+call)
	}
	for _, subject := range []string{fact, "routing.x", "_INBOX.writer.x", "$SYS.REQ.SERVER.PING", "other"} {
		refused(t, reading, subject)
	}
	for _, subject := range []string{
		"$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.DELETE.OTHER", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.MSG.DELETE.ROUTING",
		"$JS.API.CONSUMER.NAMES.ROUTING", "_INBOX.follower.x", "other",
	} {
		refused(t, writing, subject)
	}
	for _, subject := range []string{">", "routing.>", "_INBOX.>", "_INBOX.writer.>", "$JS.>", "$JS.EVENT.>"} {
		unheard(t, reading, subject)
	}
	unheard(t, writing, "_INBOX.follower.>")
	misled(t, reading, fact)
	if tip, err := writer.Tip(t.Context()); err != nil || tip != first.Pos {
		t.Errorf("the log ended at %v, and now at %v: %v", first.Pos, tip, err)
	}
	if _, err := writer.Append(t.Context(), logtest.Fact("a", 2), first.Seq); err != nil {
		t.Errorf("the writer goes on: %v", err)
	}
}

// violation waits for the server's error about one action of a client.
func violation(t *testing.T, conn *nats.Conn, what string, do func() error) {
	t.Helper()
	said := make(chan error, 16)
	conn.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { said <- err })
	defer conn.SetErrorHandler(nil)
	if err := do(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-said:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(time.Minute):
		t.Errorf("%s is not refused", what)
	}
}

func refused(t *testing.T, conn *nats.Conn, subject string) {
	t.Helper()
	violation(t, conn, "publishing on "+subject, func() error { return conn.Publish(subject, nil) })
}

func unheard(t *testing.T, conn *nats.Conn, subject string) {
	t.Helper()
	violation(t, conn, "listening to "+subject, func() error {
		_, err := conn.SubscribeSync(subject)
		return err
	})
}

// TestNoQuotaOfReadersBoundsTheirConsumers: the README states this for those who guard the
// credentials of route servers. Once NATS has such a quota, it belongs into the README's
// accounts.
func TestNoQuotaOfReadersBoundsTheirConsumers(t *testing.T) {
	const quota, many = 2, 20
	begin := "  SWITCHYARD_READERS {\n"
	accounts := strings.Replace(readmeAccounts(t), begin, begin+fmt.Sprintf("    jetstream { max_streams: 1, max_consumers: %d }\n", quota), 1)
	if !strings.Contains(accounts, "max_consumers") {
		t.Fatalf("the README has no line %q", begin)
	}
	c := startClusterWith(t, func(c *cluster, t *testing.T) { c.trustCertificatesIn(t, accounts) })
	writer, _ := c.dial(t, manager)
	_, reading := c.dial(t, routeServer)
	if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		name := fmt.Sprint("c", i)
		question := fmt.Sprintf(`{"stream_name":"ROUTING","config":{"name":%q,"filter_subject":"routing.>","deliver_policy":"all","ack_policy":"none"}}`, name)
		answer, err := reading.Request(connect.FollowerAPI+".CONSUMER.CREATE.ROUTING."+name+".routing.>", []byte(question), 5*time.Second)
		if err != nil || strings.Contains(string(answer.Data), `"error"`) {
			t.Fatalf("there is a quota after all: consumer %d of an account that may have %d: %v %v", i, quota, answer, err)
		}
	}
}

// misled uses the calls that a reader is allowed to make the servers write a fact, or delete
// the log, in its place.
func misled(t *testing.T, conn *nats.Conn, fact string) {
	t.Helper()
	filter := strings.TrimSuffix(fact, "key.forged") + ">"
	ask := func(name, more string) {
		question := fmt.Sprintf(`{"stream_name":"ROUTING","config":{"name":%q,"filter_subject":%q,"deliver_policy":"all","ack_policy":"none"%s}}`, name, filter, more)
		answer, err := conn.Request(connect.FollowerAPI+".CONSUMER.CREATE.ROUTING."+name+"."+filter, []byte(question), 5*time.Second)
		if err != nil || more == "" && strings.Contains(string(answer.Data), `"error"`) {
			t.Fatalf("a reader needs consumers, and is told %v, %v", answer, err)
		}
	}
	ask("x", "")
	ask("y", `,"headers_only":true,"deliver_subject":"$JS.API.STREAM.DELETE.ROUTING"`)
	ask("z", fmt.Sprintf(`,"deliver_subject":%q`, fact))
	for _, m := range []*nats.Msg{
		{Subject: connect.FollowerAPI + ".STREAM.INFO.ROUTING", Reply: fact},
		{Subject: connect.FollowerAPI + ".STREAM.MSG.GET.ROUTING", Reply: fact, Data: []byte(`{"seq":1}`)},
		{Subject: connect.FollowerAPI + ".CONSUMER.MSG.NEXT.ROUTING.x", Reply: fact, Data: []byte(`{"batch":10,"no_wait":true}`)},
		{Subject: connect.FollowerAPI + ".CONSUMER.DELETE.ROUTING.x", Reply: fact},
	} {
		if err := conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // what the servers do for it has no end that one could wait for
}
