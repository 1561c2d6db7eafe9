package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/tools/wait"
)

var quiet = slog.New(slog.DiscardHandler)

func byToken(_ context.Context, token string) (connect.Role, error) {
	switch token {
	case "the writer":
		return connect.Writer, nil
	case "a follower":
		return connect.Follower, nil
	case "a stranger":
		return 99, nil
	}
	return 0, errors.New("not one of us")
}

func start(t testing.TB, c embedded.Config) *embedded.Server {
	t.Helper()
	if c.StoreDir == "" {
		c.StoreDir = filepath.Join(t.TempDir(), "store")
	}
	c.Logger = quiet
	s, err := embedded.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func listening(t testing.TB) *embedded.Server {
	t.Helper()
	return start(t, embedded.Config{Listen: "127.0.0.1:0", Authenticate: byToken})
}

// dial connects with a token, as a role; it does not wait.
func dial(t testing.TB, s *embedded.Server, token string, role connect.Role) *nats.Conn {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	conn, err := connect.Dial(connect.Config{URL: "nats://" + s.Addr().String(), Role: role, TokenFile: file, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// await waits for a condition.
var await = wait.Holds

func connected(t testing.TB, conn *nats.Conn) *nats.Conn {
	t.Helper()
	await(t, "the client is connected", conn.IsConnected)
	return conn
}

func open(t testing.TB, conn *nats.Conn) *jetstream.Log {
	t.Helper()
	log, err := jetstream.New(jetstream.Config{Conn: conn})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func inProcess(t testing.TB, s *embedded.Server) *nats.Conn {
	t.Helper()
	conn, err := s.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// begun returns a log with one fact in it, of routing key a.
func begun(t testing.TB, conn *nats.Conn) (*jetstream.Log, event.Pos) {
	t.Helper()
	log := open(t, conn)
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	mark, err := log.Append(t.Context(), logtest.Fact("a", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	return log, mark.Pos
}

func TestEveryWriteIsSyncedUnlessAskedOtherwise(t *testing.T) {
	for _, unsynced := range []bool{false, true} {
		s := start(t, embedded.Config{Unsynced: unsynced})
		begun(t, inProcess(t, s))
		stats, err := s.Stats()
		if err != nil || stats.Synced == unsynced {
			t.Errorf("Unsynced %v: the server says that synced is %v, %v", unsynced, stats.Synced, err)
		}
		if stats.Events != 1 || stats.LastSeq != 1 || stats.Bytes == 0 || stats.MaxBytes != 1<<30 {
			t.Errorf("stats are %+v", stats)
		}
	}
}

func TestALogOutlivesItsServer(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embedded.Config{StoreDir: dir})
	_, pos := begun(t, inProcess(t, first))
	first.Close()
	if first.Ready() == nil {
		t.Error("a closed server says it is ready")
	}
	second := start(t, embedded.Config{StoreDir: dir})
	if err := second.Ready(); err != nil {
		t.Error(err)
	}
	if tip, err := open(t, inProcess(t, second)).Tip(t.Context()); err != nil || tip != pos {
		t.Errorf("the tip is %v, %v; before it was %v", tip, err, pos)
	}
}

func TestBadConfigurationIsRefusedWithAReason(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]embedded.Config{
		"no directory":               {},
		"a file for a directory":     {StoreDir: file},
		"a port without identities":  {StoreDir: t.TempDir(), Listen: ":0"},
		"an address that is none":    {StoreDir: t.TempDir(), Listen: "4222", Authenticate: byToken},
		"a port that is none":        {StoreDir: t.TempDir(), Listen: ":nats", Authenticate: byToken},
		"a negative bound":           {StoreDir: t.TempDir(), MaxStore: -1},
		"a port that is taken":       {StoreDir: t.TempDir(), Listen: listening(t).Addr().String(), Authenticate: byToken},
		"an address of another host": {StoreDir: t.TempDir(), Listen: "192.0.2.1:0", Authenticate: byToken},
	} {
		c.Logger = quiet
		s, err := embedded.Start(c)
		if err == nil {
			s.Close()
			t.Errorf("%s: no error", what)
		}
	}
}

func TestOnlyThoseWithARoleGetIn(t *testing.T) {
	s := listening(t)
	for _, token := range []string{"", "stolen", "a stranger"} {
		conn := dial(t, s, token, connect.Writer)
		await(t, fmt.Sprintf("token %q is refused", token), func() bool { return errors.Is(conn.LastError(), nats.ErrAuthorization) })
		if conn.IsConnected() {
			t.Errorf("token %q got in", token)
		}
	}
	connected(t, dial(t, s, "the writer", connect.Writer))
	connected(t, dial(t, s, "a follower", connect.Follower))
}

func TestAClientWithoutAValidTokenGetsInOnceItHasOne(t *testing.T) {
	s := listening(t)
	file := filepath.Join(t.TempDir(), "token")
	conn, err := connect.Dial(connect.Config{URL: "nats://" + s.Addr().String(), Role: connect.Follower, TokenFile: file, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	await(t, "it is refused without a token", func() bool { return conn.LastError() != nil })
	if err := os.WriteFile(file, []byte("a follower\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	connected(t, conn)
}

func TestAFollowerReads(t *testing.T) {
	s := listening(t)
	_, pos := begun(t, connected(t, dial(t, s, "the writer", connect.Writer)))
	log, err := jetstream.New(jetstream.Config{
		Conn: connected(t, dial(t, s, "a follower", connect.Follower)), APIPrefix: connect.FollowerAPI,
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := log.Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	facts, err := f.Next(t.Context())
	if err != nil || len(facts) != 1 || facts[0].Pos != pos {
		t.Errorf("the follower got %v, %v", facts, err)
	}
}

// attacks are what a follower that was taken over could try.
var attacks = map[string]func(t *testing.T, f *nats.Conn, epoch string) []*nats.Msg{
	"append a fact": func(_ *testing.T, _ *nats.Conn, epoch string) []*nats.Msg {
		return []*nats.Msg{{Subject: "routing." + epoch + ".key.a", Data: []byte("{}")}}
	},
	"end the log": func(*testing.T, *nats.Conn, string) []*nats.Msg {
		return []*nats.Msg{{Subject: "$JS.API.STREAM.DELETE.ROUTING"}}
	},
	"empty the log": func(*testing.T, *nats.Conn, string) []*nats.Msg {
		return []*nats.Msg{{Subject: "$JS.API.STREAM.PURGE.ROUTING"}, {Subject: "$JS.API.STREAM.MSG.DELETE.ROUTING", Data: []byte(`{"seq":1}`)}}
	},
	"let the answer about the stream be a fact": func(_ *testing.T, _ *nats.Conn, epoch string) []*nats.Msg {
		return []*nats.Msg{
			{Subject: "$JS.API.STREAM.INFO.ROUTING", Reply: "routing." + epoch + ".key.a"},
			{Subject: "FACTS.API.STREAM.INFO.ROUTING", Reply: "routing." + epoch + ".key.a"},
		}
	},
	"let a stored fact be a new one": func(t *testing.T, f *nats.Conn, epoch string) []*nats.Msg {
		if answer := consumer(t, f, map[string]any{"name": "x", "deliver_policy": "all", "ack_policy": "none"}); strings.Contains(answer, "error") {
			t.Fatalf("a follower needs consumers, but was told %s", answer)
		}
		return []*nats.Msg{
			{Subject: "FACTS.API.CONSUMER.MSG.NEXT.ROUTING.x", Reply: "routing." + epoch + ".key.b", Data: []byte(`{"batch":10,"expires":200000000}`)},
			{Subject: "FACTS.API.CONSUMER.MSG.NEXT.ROUTING.x", Reply: "routing." + epoch + ".key.a", Data: []byte(`{"batch":10,"no_wait":true}`)},
		}
	},
	"let facts be delivered as a command": func(t *testing.T, f *nats.Conn, _ string) []*nats.Msg {
		consumer(t, f, map[string]any{"name": "y", "deliver_policy": "all", "ack_policy": "none", "headers_only": true,
			"deliver_subject": "$JS.API.STREAM.DELETE.ROUTING"})
		return nil
	},
	"let facts be delivered as facts": func(t *testing.T, f *nats.Conn, epoch string) []*nats.Msg {
		consumer(t, f, map[string]any{"name": "z", "deliver_policy": "all", "ack_policy": "none",
			"deliver_subject": "routing." + epoch + ".key.c"})
		return nil
	},
}

// consumer asks for a consumer with any configuration, and returns the answer.
func consumer(t *testing.T, f *nats.Conn, config map[string]any) string {
	t.Helper()
	request, err := json.Marshal(map[string]any{"stream_name": "ROUTING", "config": config})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.Request(connect.FollowerAPI+".CONSUMER.CREATE.ROUTING."+config["name"].(string), request, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer.Data)
}

func TestAFollowerThatWasTakenOverCannotChangeTheLog(t *testing.T) {
	for what, attack := range attacks {
		t.Run(what, func(t *testing.T) {
			s := listening(t)
			log, pos := begun(t, connected(t, dial(t, s, "the writer", connect.Writer)))
			follower := connected(t, dial(t, s, "a follower", connect.Follower))
			for _, m := range attack(t, follower, pos.Epoch) {
				if err := follower.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
			// Its messages have been handled when the server answers the next; what
			// they set off inside the server has when a later fact is recorded.
			if err := follower.FlushTimeout(5 * time.Second); err != nil {
				t.Fatal(err)
			}
			after, err := log.Append(t.Context(), logtest.Fact("a", 2), pos.Seq)
			if err != nil || after.Pos != (event.Pos{Epoch: pos.Epoch, Seq: 2}) {
				t.Errorf("after the attack the next fact is at %v: %v", after, err)
			}
			await(t, "its requests have run out", func() bool { return settled(t, log, after.Pos) })
		})
	}
}

// settled reads the tip for longer than the requests of the attacks live.
func settled(t *testing.T, log eventbus.Log, want event.Pos) bool {
	t.Helper()
	for end := time.After(400 * time.Millisecond); ; {
		if tip, err := log.Tip(t.Context()); err != nil || tip != want {
			t.Errorf("the attack changed the log: tip %v, want %v: %v", tip, want, err)
			return true
		}
		select {
		case <-end:
			return true
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestAFollowerHearsOnlyItsOwnAnswers(t *testing.T) {
	s := listening(t)
	follower := connected(t, dial(t, s, "a follower", connect.Follower))
	for _, subject := range []string{">", "routing.>", "_INBOX.>", "_INBOX.writer.>", "$JS.>", "$SYS.>"} {
		if _, err := follower.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := follower.FlushTimeout(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		await(t, "listening to "+subject+" is refused", func() bool { return errors.Is(follower.LastError(), nats.ErrPermissionViolation) })
	}
}

// The bus creates consumers in JetStream with its own rights: only those that a follower of
// this project requests.
func TestFollowersGetNoConsumersThatStayOrDeliver(t *testing.T) {
	s := listening(t)
	begun(t, connected(t, dial(t, s, "the writer", connect.Writer)))
	follower := connected(t, dial(t, s, "a follower", connect.Follower))
	for field, c := range map[string]struct {
		bad, good any
	}{
		"durable_name":       {"c", ""},
		"deliver_subject":    {"_INBOX.x", ""},
		"Deliver_Subject":    {"routing.x", ""},
		"inactive_threshold": {int64(time.Minute) + 1, int64(time.Minute)},
	} {
		config := map[string]any{"name": "c", "deliver_policy": "all", "ack_policy": "none", "mem_storage": true, field: c.bad}
		if answer := consumer(t, follower, config); !strings.Contains(answer, `"err_code":10012`) || !strings.Contains(answer, "follower") {
			t.Errorf("%s %v: %s", field, c.bad, answer)
		}
		config[field] = c.good
		if answer := consumer(t, follower, config); strings.Contains(answer, `"error"`) {
			t.Errorf("%s %v: %s", field, c.good, answer)
		}
	}
	answer, err := follower.Request(connect.FollowerAPI+".CONSUMER.CREATE.ROUTING.c", []byte("{"), 10*time.Second)
	if err != nil || !strings.Contains(string(answer.Data), "cannot be read") {
		t.Errorf("half a question: %v, %v", answer, err)
	}
}

// The stream has 1,024 consumers; followers do not get the last of them.
func TestFollowersLeaveConsumersToTheLeader(t *testing.T) {
	s := listening(t)
	log, pos := begun(t, connected(t, dial(t, s, "the writer", connect.Writer)))
	follower := connected(t, dial(t, s, "a follower", connect.Follower))
	made, refused := 0, ""
	for made < jetstream.MaxConsumers && refused == "" {
		name := fmt.Sprintf("c%d", made)
		answer := consumer(t, follower, map[string]any{"name": name, "deliver_policy": "all", "ack_policy": "none", "mem_storage": true, "inactive_threshold": int64(time.Minute)})
		if strings.Contains(answer, `"error"`) {
			refused = answer
			break
		}
		made++
	}
	if made < 512 || made > jetstream.MaxConsumers-128 || !strings.Contains(refused, "followers of the routing log have as many as they may") {
		t.Fatalf("%d consumers were made for followers; then: %s", made, refused)
	}
	leader, err := jetstream.New(jetstream.Config{Conn: connected(t, dial(t, s, "the writer", connect.Writer))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leader.Begin(t.Context(), event.Mark{}); err != nil {
		t.Errorf("no leader can begin: %v", err)
	}
	if _, err := log.Append(t.Context(), logtest.Fact("a", 2), pos.Seq); err != nil {
		t.Errorf("nothing can be recorded: %v", err)
	}
	if _, err := follower.Request(connect.FollowerAPI+".CONSUMER.DELETE.ROUTING.c0", nil, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	// The stream counts a consumer for a moment after its deletion was answered.
	if err := wait.Until(t.Context(), 10*time.Second, "a follower that left makes room", func() error {
		if answer := consumer(t, follower, map[string]any{"name": "again", "deliver_policy": "all", "ack_policy": "none"}); strings.Contains(answer, `"error"`) {
			return errors.New(answer)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
