package jetstream

import (
	"strings"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/event"
)

// subject is where the events of a key are in an epoch.
func subject(epoch, key string) string { return subjectPrefix + epoch + "." + key }

// epochOf returns the epoch that a subject of the stream names.
func epochOf(subject string) string {
	epoch, _, _ := strings.Cut(strings.TrimPrefix(subject, subjectPrefix), ".")
	return epoch
}

func toNATS(epoch string, m event.Message) *nats.Msg {
	msg := &nats.Msg{Subject: subject(epoch, m.Subject), Header: make(nats.Header, len(m.Header)+4), Data: m.Data}
	values := make([]string, 0, len(m.Header)) // one piece of memory for all of them
	for name, value := range m.Header {
		values = append(values, value)
		msg.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return msg
}

// attributes begins the name of every header that is part of an event; the
// others are the transport's.
const attributes = "ce-"

func fromNATS(pos event.Pos, on string, header nats.Header, data []byte) event.Stored {
	m := event.Message{
		Subject: strings.TrimPrefix(on, subject(pos.Epoch, "")),
		Header:  make(map[string]string, len(header)),
		Data:    data,
	}
	for name, values := range header {
		if len(values) > 0 && strings.HasPrefix(name, attributes) {
			m.Header[name] = values[0]
		}
	}
	return event.Stored{Pos: pos, Message: m}
}
