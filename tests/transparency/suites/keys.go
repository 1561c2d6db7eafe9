package suites

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"

	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/xds/routingkey"
)

// Sides are the answers of the two sides, as in podinfo's message.
type Sides struct{ Baseline, Fork string }

// Tally counts requests.
type Tally struct {
	Requests, Keyed, Astray, Failed, Connections int
	// First is the first error.
	First string
}

// Plus adds two.
func (t Tally) Plus(o Tally) Tally {
	sum := Tally{t.Requests + o.Requests, t.Keyed + o.Keyed, t.Astray + o.Astray, t.Failed + o.Failed, t.Connections + o.Connections, t.First}
	if sum.First == "" {
		sum.First = o.First
	}
	return sum
}

// Alternate asks podinfo over one connection, with the target's key every second time,
// until the context ends. Sure returns whether there is a route for the key, and whether that
// is certain; where it changes during a request, either side may answer.
func Alternate(ctx context.Context, protocol string, to suite.Target, who Sides, sure func() (number int64, open, sure bool)) (t Tally) {
	plain := to
	plain.Key = ""
	c := newClient(protocol, plain)
	defer c.close()
	lasting := httptrace.WithClientTrace(context.WithoutCancel(ctx), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if !got.Reused {
			t.Connections++
		}
	}})
	for ctx.Err() == nil {
		keyed := t.Requests%2 == 1
		before, open, certain := sure()
		side, err := c.side(lasting, keyed, to.Key)
		after, _, _ := sure()
		t.Requests++
		if keyed {
			t.Keyed++
		}
		want := who.Baseline
		if keyed && open {
			want = who.Fork
		}
		wrong := ""
		switch {
		case err != nil:
			t.Failed++
			wrong = err.Error()
		case keyed && (!certain || before != after):
		case side != want:
			t.Astray++
			wrong = fmt.Sprintf("%s answered in place of %s, key %t, route %t", side, want, keyed, open)
		}
		if t.First == "" {
			t.First = wrong
		}
	}
	return t
}

// side requests the identity of the side that responds.
func (c client) side(ctx context.Context, keyed bool, key string) (string, error) {
	answer, err := c.ask(ctx, http.MethodGet, "/api/info", nil, func(r *http.Request) {
		if keyed {
			r.Header.Set(routingkey.Baggage, baggage(key))
		}
	})
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var said struct{ Message string }
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", answer.Status, text)
	}
	err = json.Unmarshal(text, &said)
	return said.Message, err
}
