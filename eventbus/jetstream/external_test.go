package jetstream_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// permissions reads what the README of the chart tells people to give a user.
func permissions(t *testing.T, user string) jwt.Permissions {
	t.Helper()
	readme, err := os.ReadFile("../../charts/operator/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var may jwt.Permissions
	for line := range strings.Lines(string(readme)) {
		switch words := strings.Fields(line); {
		case len(words) != 3 || words[0] != user:
		case words[1] == "publish":
			may.Pub.Allow.Add(words[2])
		case words[1] == "subscribe":
			may.Sub.Allow.Add(words[2])
		}
	}
	if len(may.Pub.Allow) == 0 || len(may.Sub.Allow) == 0 {
		t.Fatalf("the README of the chart gives %s no permissions: %+v", user, may)
	}
	return may
}

// followed waits until who follows the log is given an event, following again when it has
// to.
func followed(t *testing.T, log *jetstream.Log, seq uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var last uint64
	var err error
	for last < seq && ctx.Err() == nil {
		var f eventbus.Follower
		if f, err = log.Follow(ctx); err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for last < seq && err == nil {
			var events []event.Recorded
			events, err = f.Next(ctx)
			for _, r := range events {
				last = r.Pos.Seq
			}
		}
		f.Close()
	}
	if last < seq {
		t.Fatalf("the follower has event %d, and is to have %d: %v", last, seq, err)
	}
}

// TestTwoUsersOfAClusterMayDoWhatTheREADMESays: with the permissions that the chart's README
// lists, and no others, the manager writes and a route server follows, also when one of the
// three servers is lost; and a route server cannot write.
func TestTwoUsersOfAClusterMayDoWhatTheREADMESays(t *testing.T) {
	c := startCluster(t)
	c.user(t, "writer", permissions(t, "writer"))
	c.user(t, "follower", permissions(t, "follower"))
	writer, _ := c.dialAs(t, "writer", connect.Writer)
	follower, conn := c.dialAs(t, "follower", connect.Follower)
	if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	mark, err := writer.Append(t.Context(), logtest.Fact("a", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	followed(t, follower, mark.Pos.Seq)

	mayNotWrite(t, writer, conn, mark.Pos.Epoch)
	floor := event.Fact{Key: event.LogFloor, Time: time.Now(), Cause: event.Cause{Manager: "test"}, Data: &factv1.Floor{Reason: "size"}}
	more, err := writer.Append(t.Context(), floor, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Forget(t.Context(), more.Pos); err != nil {
		t.Errorf("the writer forgets: %v", err)
	}

	c.stop(c.leader(t))
	var second event.Mark
	c.await(t, "the writer goes on without one server", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		newest, _, err := writer.Newest(ctx, logtest.Fact("a", 2).Key)
		if err == nil {
			second, err = writer.Append(ctx, logtest.Fact("a", 2), newest.Pos.Seq)
		}
		return err == nil
	})
	followed(t, follower, second.Pos.Seq)
	if tip, err := writer.Tip(t.Context()); err != nil || tip.Epoch != mark.Pos.Epoch {
		t.Errorf("the epoch is another one: %v, %v", tip, err)
	}
	// A new epoch takes the right to take the old stream away.
	if _, err := writer.Restart(t.Context(), mark.Pos.Epoch); err != nil {
		t.Errorf("the writer begins anew: %v", err)
	}
}

// mayNotWrite has a follower try what only a writer may, and hear what that one is told.
func mayNotWrite(t *testing.T, writer *jetstream.Log, conn *nats.Conn, epoch string) {
	t.Helper()
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := js.Publish(ctx, "routing."+epoch+".key.forged", []byte("{}")); err == nil {
		t.Error("a follower writes")
	}
	ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := js.DeleteStream(ctx, jetstream.StreamName); err == nil {
		t.Error("a follower takes the log away")
	}
	sub, err := conn.SubscribeSync("_INBOX.writer.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Tip(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.NextMsg(time.Second); err == nil {
		t.Errorf("a follower hears what the writer is told: %s", m.Data)
	}
}
