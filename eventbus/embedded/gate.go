package embedded

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/jetstream"
)

// The stream has a bounded number of consumers (jetstream.MaxConsumers), and followers
// could take them all: then no leader could read the log, and so begin, and nobody new
// could follow. A quota of a NATS account does not help: consumers count for the
// account that has the stream, whoever asked for them. So followers do not ask
// JetStream itself for a consumer but the gate, which hands the question on as long as
// there are fewer than followersShare, and otherwise answers as JetStream would.
const (
	// writersShare is how many consumers are left to the writers.
	writersShare   = 256
	followersShare = jetstream.MaxConsumers - writersShare
	// gateAPI is where the gate takes questions, in the account of the log.
	gateAPI = "GATE"
	// gateAnswer bounds one look at how many consumers there are, and the making of
	// one; gateAtOnce is how many questions are under way at a time, and so how many
	// more consumers than their share followers may have for a moment.
	gateAnswer = 4 * time.Second
	gateAtOnce = 16
)

// createAPI is the call by which a consumer is made.
const createAPI = api + ".CONSUMER.CREATE." + stream + ".>"

// tooMany is JetStream's answer when there are too many consumers.
const tooMany = `{"type":"io.nats.jetstream.api.v1.consumer_create_response","error":{"code":400,"err_code":10026,` +
	`"description":"maximum consumers limit reached: followers of the routing log have as many as they may"}}`

// gated gives the subject under which followers' questions arrive in the account of
// the log.
func gated(call string) string {
	if call == createAPI {
		return gateAPI + strings.TrimPrefix(call, api)
	}
	return call
}

// guard answers the followers' questions for a consumer, as long as the connection
// lasts. Who gets no answer asks again.
func (o *opened) guard() error {
	turns := make(chan struct{}, gateAtOnce)
	_, err := o.conn.Subscribe(gated(createAPI), func(m *nats.Msg) {
		turns <- struct{}{}
		go func() {
			defer func() { <-turns }()
			if answer := o.mayConsume(m); answer != nil {
				_ = m.Respond(answer)
			}
		}()
	})
	if err != nil {
		return fmt.Errorf("event bus: guard the consumers: %w", err)
	}
	return nil
}

// mayConsume answers one question. The gate asks JetStream itself and passes the answer
// on: the server lets no client name the place of somebody else's answer.
func (o *opened) mayConsume(m *nats.Msg) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), gateAnswer)
	defer cancel()
	if s, err := o.js.Stream(ctx, stream); err == nil && s.CachedInfo().State.Consumers >= followersShare {
		return []byte(tooMany)
	}
	answer, err := o.conn.RequestWithContext(ctx, api+strings.TrimPrefix(m.Subject, gateAPI), m.Data)
	if err != nil {
		return nil
	}
	return answer.Data
}
