package event_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/eventbus/event"
)

func TestAnEventComesBackFromJSONWhateverIsInIt(t *testing.T) {
	header := func(name, value string) func(*event.Message) {
		return func(m *event.Message) { m.Header[name] = value }
	}
	data := func(s string) func(*event.Message) {
		return func(m *event.Message) { m.Data = []byte(s) }
	}
	for name, c := range map[string]struct {
		change func(*event.Message)
		plain  bool // said as the CloudEvent that it is
	}{
		"as it is written":                          {func(*event.Message) {}, true},
		"a value with a space, a quote and letters": {header("ce-causename", "%C3%BC%20%22%25%22"), true},
		"a value that reads as mark-up":             {header("ce-causename", "<b>&</b>"), true},
		"an attribute of a later version":           {header("ce-region", "eu"), true},
		"no data":                                   {data(""), true},
		"data with the same name twice":             {data(`{"a":1,"a":2}`), true},
		"data with half a character":                {data(`"\ud800"`), true},
		"a header of the transport":                 {header("Nats-Msg-Id", "7"), true},
		"lower-case digits in an escape":            {header("ce-causename", "%c3%bc"), false},
		"an escape that was not needed":             {header("ce-causename", "%41"), false},
		"an escape that is none":                    {header("ce-causename", "%zz"), false},
		"a value that is not escaped":               {header("ce-causename", "a b"), false},
		"a value that is no text":                   {header("ce-causename", "%FF"), false},
		"a name with an upper-case letter":          {header("ce-Region", "eu"), false},
		"a name that is empty":                      {header("ce-", "eu"), false},
		"a name that is ours in JSON":               {header("ce-sequence", "12"), false},
		"a name that is the data's in JSON":         {header("ce-data", "12"), false},
		"no id":                                     {func(m *event.Message) { delete(m.Header, "ce-id") }, false},
		"a type that is ours in JSON":               {header("ce-type", event.TypeWritten), false},
		"data with spaces":                          {data(`{ }`), false},
		"data that is no JSON":                      {data(`{`), false},
		"data that is no text":                      {data("\"\xff\""), false},
		"data of two values":                        {data(`1 2`), false},
		"another subject than the key says":         {func(m *event.Message) { m.Subject = "key.other" }, false},
		"a subject that is no text":                 {func(m *event.Message) { m.Subject = "\xff" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := event.Encode(declared("k"))
			if err != nil {
				t.Fatal(err)
			}
			c.change(&m)
			line := event.AppendStructured(nil, event.Stored{Pos: event.Pos{Epoch: "e", Seq: 7}, Message: m})
			if !json.Valid(line) || !utf8.Valid(line) || bytes.ContainsRune(line, '\n') {
				t.Errorf("not a line of JSON: %q", line)
			}
			if plain := !bytes.Contains(line, []byte(`"type":"`+event.TypeWritten)); plain != c.plain {
				t.Errorf("said plainly: %v\n%s", plain, line)
			}
			got, err := event.ParseStructured(line, "e")
			if err != nil {
				t.Fatal(err)
			}
			delete(m.Header, "Nats-Msg-Id")
			want := event.Stored{Pos: event.Pos{Epoch: "e", Seq: 7}, Message: m}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-written +read):\n%s", diff)
			}
		})
	}
}

func TestAnIdFitsItsEvent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*event.Message)
		want   bool
	}{
		"as it was written":         {func(*event.Message) {}, true},
		"other data":                {func(m *event.Message) { m.Data = []byte(`{"routingKey":"k","since":"2026-11-21T14:03:00Z"}`) }, false},
		"another manager":           {func(m *event.Message) { m.Header["ce-causemanager"] = "mallory" }, false},
		"another id":                {func(m *event.Message) { m.Header["ce-id"] = "00" }, false},
		"a later time of recording": {func(m *event.Message) { m.Header["ce-recordedtime"] = "2026-11-21T14:03:00Z" }, true},
		"a type of a newer writer":  {func(m *event.Message) { m.Header["ce-type"] = "dev.switchyard.routing.declared.v9" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := event.Encode(declared("k"))
			if err != nil {
				t.Fatal(err)
			}
			c.change(&m)
			if got := event.Identified(m); got != c.want {
				t.Errorf("the id fits: %v", got)
			}
		})
	}
}
