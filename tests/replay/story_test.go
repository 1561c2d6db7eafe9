package replay

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/xds/routingkey"
)

// story is what one file tells.
type story struct {
	t     *testing.T
	store *memory.Store
	log   *memory.Log
	main  *server.Main
	// told is the place of the last fact that was shown, epochs are those that were, in order.
	told   event.Pos
	epochs []string
	// sent are the routes that sidecars have.
	sent map[table.Workload]routes
	// operator is nil where nothing but facts is told.
	operator *operator
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{t: t, store: memory.NewStore(), sent: map[table.Workload]routes{}}
	s.log = s.store.Open()
	tip, err := s.log.Begin(t.Context(), event.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	s.told, s.epochs = tip.Pos, []string{tip.Epoch}
	s.main, _ = served.Run(t, server.Config{Log: s.log, Keys: routingkey.Find})
	return s
}

// step does what a command says and returns the answer: to a question, or, of what happens,
// the facts that are recorded because of it.
func (s *story) step(ctx context.Context, d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "status":
		return s.operator.status(ctx, d)
	case "show":
		return s.operator.show(ctx, d)
	case "xds":
		return s.xds(ctx, d)
	case "routes":
		return s.routes(ctx, d)
	case "table", "explain", "diff", "history", "watch":
		return s.ask(ctx, d)
	case "facts":
		return s.after(ctx, s.facts(ctx, d))
	case "forget":
		floor, err := strconv.ParseUint(d.CmdArgs[0].Key, 10, 64)
		return s.after(ctx, errors.Join(err, s.log.Forget(ctx, event.Pos{Epoch: s.told.Epoch, Seq: floor})))
	case "again":
		_, err := s.log.Restart(ctx, "")
		return s.after(ctx, err)
	}
	return s.after(ctx, s.operate(ctx, d))
}

// facts puts facts on the log as they stand.
func (s *story) facts(ctx context.Context, d *datadriven.TestData) error {
	for line := range strings.Lines(d.Input) {
		if key, ok := strings.CutPrefix(line, "newer "); ok {
			m := event.Message{Subject: event.RoutingKey(strings.TrimSpace(key)).Subject(), Header: map[string]string{"ce-type": "dev.switchyard.routing.paused.v9"}, Data: []byte("{}")}
			if _, err := s.store.AppendMessage(m); err != nil {
				return err
			}
			continue
		}
		data, err := parseFact(strings.Fields(line))
		if err != nil {
			return err
		}
		f := event.Fact{Key: served.KeyOf(data), Data: data, Cause: event.Cause{Kind: "SignadotSandbox", Name: "told", Manager: "kubectl"}}
		if err := logtest.Put(ctx, s.log, f); err != nil {
			return err
		}
	}
	return nil
}

// after returns the facts that were recorded since it was last asked, once controllers are at
// rest and the route server has them.
func (s *story) after(ctx context.Context, err error) (string, error) {
	if err == nil && s.operator != nil {
		err = s.operator.settle(ctx)
	}
	tip, away := s.log.Tip(ctx)
	if away != nil {
		return "", errors.Join(err, away)
	}
	var out strings.Builder
	if tip.Epoch != s.told.Epoch {
		s.told, s.epochs = event.Pos{Epoch: tip.Epoch}, append(s.epochs, tip.Epoch)
		fmt.Fprintf(&out, "epoch %s begins\n", tip.Epoch)
	}
	cursor, unread := s.log.Read(ctx, s.told)
	if err = errors.Join(err, unread); unread != nil {
		return out.String(), err
	}
	defer cursor.Close()
	for s.told.Seq < tip.Seq {
		events, unread := cursor.Next(ctx)
		facts, damaged := eventbus.Open(events)
		if err := errors.Join(unread, damaged); err != nil {
			return out.String(), err
		}
		for _, r := range facts {
			fmt.Fprintf(&out, "%d %s\n", r.Pos.Seq, factText(r.Fact))
			s.told = r.Pos
		}
	}
	_, behind := s.current(ctx)
	return out.String(), errors.Join(err, behind)
}

// current returns the table that is served once all that was recorded is in it, and holds it
// against one that is folded anew. While the log is not whole it is the one before.
func (s *story) current(ctx context.Context) (table.Table, error) {
	shown, _ := s.main.View().Current()
	follower, err := s.log.Follow(ctx)
	if err != nil {
		return shown, err
	}
	defer follower.Close()
	tip, err := s.log.Tip(ctx)
	var anew table.Table
	for err == nil && anew.Pos().Seq < tip.Seq {
		var facts []event.Recorded
		facts, err = follower.Next(ctx)
		anew = anew.Apply(facts...)
	}
	if err != nil || !anew.Whole() {
		return shown, err
	}
	if shown, err = s.main.View().WaitFor(ctx, tip); err == nil && shown.Hash() != anew.Hash() {
		err = errors.New("the table that is served is not the one that follows from the facts")
	}
	for past := ""; err == nil && (past == "" || strings.Contains(past, "unknown time")); { // The past is read beside.
		past, err = s.run(ctx, "log", "kept")
	}
	return shown, err
}

const moment = `\d{4}-\d\d-\d\dT[\d:]+Z`

// scrubbed is what differs from one run to another, or says nothing in a story.
var scrubbed = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?m)^hash of the whole table: .*\n|, hash [0-9a-f]{12}…|, recorded \S+( \([^)]*\))?`), ""},
	{regexp.MustCompile(`(event \d+), \S+ \([^)]*\):`), "$1:"},
	{regexp.MustCompile(` \((at|since) ` + moment + `\)|,? (at|since|of) ` + moment), ""},
	{regexp.MustCompile(`(SEQUENCE +)RECORDED +AGE +`), "$1"},
	{regexp.MustCompile(`(?m)^(\d+ +)\d{4}-\S+ +\d+\w+ +`), "$1"},
	{regexp.MustCompile(`(?m) +$`), ""},
	{regexp.MustCompile(`\n\n+`), "\n"},
}

// scrub takes out of an answer what a story does not tell, and calls epochs e1, e2, ….
func (s *story) scrub(answer string) string {
	for i, epoch := range slices.Backward(s.epochs) {
		answer = strings.ReplaceAll(answer, epoch, fmt.Sprintf("e%d", i+1))
	}
	for _, one := range scrubbed {
		answer = one.what.ReplaceAllString(answer, one.by)
	}
	return answer
}
