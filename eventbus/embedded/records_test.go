package embedded

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/tools/wait"
)

// The server sends an answer wherever the request asks, without checking whether the client
// could publish there. In one account with the stream, the answer to a record could thus be a
// command to it, or a message to a listener there: the answers to recorders and to auditors
// have no receiver there.
func TestNoAnswerToARecorderOrAnAuditorIsHeardBesideTheRecords(t *testing.T) {
	roles := map[string]connect.Role{"recorder": connect.Recorder, "auditor": connect.Auditor}
	s, err := Start(Config{StoreDir: filepath.Join(t.TempDir(), "store"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Records: Records{Bytes: 1 << 20},
		Authenticate: func(_ context.Context, token string) (connect.Role, error) {
			if role, is := roles[token]; is {
				return role, nil
			}
			return 0, errors.New("nobody")
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	eventually := func(what string, check func() error) { t.Helper(); wait.Eventually(t, time.Minute, what, check) }
	owner, err := nats.Connect("nats://"+s.Addr().String(), nats.Token(s.recordsSecret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	dial := func(who string) *nats.Conn {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(who), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := connect.Dial(connect.Config{URL: "nats://" + s.Addr().String(), Role: roles[who], TokenFile: file, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		eventually(who+" is connected", func() error {
			if !c.IsConnected() {
				return errors.New("it is not")
			}
			return nil
		})
		return c
	}
	recorder, auditor := dial("recorder"), dial("auditor")
	info := connect.AuditorAPI + ".STREAM.INFO." + connect.RecordsStream
	eventually("there is a stream", func() error { _, err := auditor.Request(info, nil, time.Second); return err })
	beside, err := owner.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Flush(); err != nil {
		t.Fatal(err)
	}
	places := []string{"anywhere"}
	for _, command := range []string{"STREAM.PURGE", "STREAM.DELETE", "STREAM.UPDATE", "STREAM.MSG.DELETE", "CONSUMER.CREATE"} {
		places = append(places, "$JS.API."+command+"."+connect.RecordsStream)
	}
	for _, place := range places {
		for who, c := range map[string]struct {
			conn *nats.Conn
			to   string
		}{"recorder": {recorder, connect.RecordsSubject}, "auditor": {auditor, info}} {
			if err := c.conn.PublishRequest(c.to, place, nil); err != nil {
				t.Fatal(err)
			}
			// Its effects are over when the next request is answered.
			if _, err := c.conn.Request(c.to, nil, 10*time.Second); err != nil {
				t.Errorf("%s is not answered: %v", who, err)
			}
		}
	}
	if err := owner.FlushTimeout(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := beside.NextMsg(200 * time.Millisecond)
		if err != nil {
			return
		}
		for _, place := range places {
			if m.Subject == place {
				t.Errorf("beside the records %s is heard: %s", m.Subject, m.Data)
			}
		}
	}
}
