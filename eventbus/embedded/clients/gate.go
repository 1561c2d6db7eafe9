package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus/jetstream"
)

// The stream has a bounded number of consumers (jetstream.MaxConsumers), and followers could
// take them all: then no leader could read the log, and so begin, and no new follower could
// connect. A quota of a NATS account does not help: consumers count for the account of the
// stream, not of the client. So followers ask the gate instead of JetStream for a consumer. It
// forwards the request as long as there are fewer than followersShare, and otherwise answers as
// JetStream would.
const (
	// writersShare is how many consumers are left to the writers.
	writersShare   = 256
	followersShare = jetstream.MaxConsumers - writersShare
	// gateAPI is where the gate takes questions, in the account of the log.
	gateAPI = "GATE"
	// gateAnswer bounds counting the consumers and creating one; gateAtOnce is how many
	// requests are in progress at a time, and so by how many consumers followers can exceed
	// their share for a moment.
	gateAnswer = 4 * time.Second
	gateAtOnce = 16
	// maxInactive is the longest that an idle consumer of a follower is kept.
	maxInactive = time.Minute
)

// createAPI is the call by which a consumer is made.
const createAPI = api + ".CONSUMER.CREATE." + stream + ".>"

// gated returns the subject under which followers' questions arrive in the account of
// the log.
func gated(call string) string {
	if call == createAPI {
		return gateAPI + strings.TrimPrefix(call, api)
	}
	return call
}

// gate hands questions for a consumer on, over a connection of our own.
type gate struct {
	conn *nats.Conn
	js   natsjs.JetStream
}

// Guard answers the followers' questions for a consumer, as long as the connection
// lasts. Who gets no answer asks again.
func Guard(conn *nats.Conn, js natsjs.JetStream) error {
	g := gate{conn, js}
	turns := make(chan struct{}, gateAtOnce)
	_, err := conn.Subscribe(gated(createAPI), func(m *nats.Msg) {
		turns <- struct{}{}
		go func() {
			defer func() { <-turns }()
			if answer := g.mayConsume(m); answer != nil {
				_ = m.Respond(answer)
			}
		}()
	})
	if err != nil {
		return fmt.Errorf("event bus: guard the consumers: %w", err)
	}
	return nil
}

// mayConsume answers one request. The gate asks JetStream itself and passes the answer on: the
// server lets no client name another client's reply subject. The gate has wider rights than the
// follower, so it checks the request first.
func (g gate) mayConsume(m *nats.Msg) []byte {
	if why := amiss(m.Data); why != "" {
		return refusal(400, 10012, why)
	}
	ctx, cancel := context.WithTimeout(context.Background(), gateAnswer)
	defer cancel()
	s, err := g.js.Stream(ctx, stream)
	if err != nil {
		return refusal(503, 10008, "it is not known how many consumers there are: try again")
	}
	if s.CachedInfo().State.Consumers >= followersShare {
		return refusal(400, 10026, "maximum consumers limit reached: followers of the routing log have as many as they may")
	}
	answer, err := g.conn.RequestWithContext(ctx, api+strings.TrimPrefix(m.Subject, gateAPI), m.Data)
	if err != nil {
		return nil
	}
	return answer.Data
}

// amiss returns why a consumer is not allowed for a follower, "" when it is. A follower's
// consumer is a pull consumer that is deleted soon when it is idle.
func amiss(question []byte) string {
	var q struct {
		Config struct {
			Durable           string        `json:"durable_name"`
			DeliverSubject    string        `json:"deliver_subject"`
			InactiveThreshold time.Duration `json:"inactive_threshold"`
		} `json:"config"`
	}
	switch err := json.Unmarshal(question, &q); {
	case err != nil:
		return "the question for a consumer cannot be read"
	case q.Config.Durable != "":
		return "a consumer of a follower has no durable_name"
	case q.Config.DeliverSubject != "":
		return "a consumer of a follower has no deliver_subject"
	case q.Config.InactiveThreshold > maxInactive:
		return fmt.Sprintf("inactive_threshold of a follower's consumer is %s at most", maxInactive)
	}
	return ""
}

// refusal returns an answer as JetStream gives it to a question for a consumer that it
// does not make.
func refusal(code, errCode int, why string) []byte {
	return fmt.Appendf(nil, `{"type":"io.nats.jetstream.api.v1.consumer_create_response","error":{"code":%d,"err_code":%d,"description":%q}}`, code, errCode, why)
}
