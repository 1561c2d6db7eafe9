package history

import (
	"errors"
	"io"
	"slices"
	"testing"

	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/messages"
)

// A log goes on while it is read: what comes behind the tip that was asked for first would
// make a file of it that says it is shorter than it is.
func TestALogIsReadUpToItsTipAndNoFurther(t *testing.T) {
	events := func(sequences ...uint64) (out []*routingv1.StoredEvent) {
		for _, seq := range sequences {
			out = append(out, messages.StoredEvent(event.Stored{Pos: event.Pos{Epoch: "e", Seq: seq}}))
		}
		return out
	}
	come := [][]*routingv1.StoredEvent{events(3), nil, events(4, 5, 6), events(7)}
	next := upTo(event.Pos{Epoch: "e", Seq: 5}, events(1, 2), func() (*routingv1.ReadLogResponse, error) {
		if len(come) == 0 {
			return nil, errors.New("it was read on to its end")
		}
		m := &routingv1.ReadLogResponse{Events: come[0]}
		come = come[1:]
		return m, nil
	})
	var read []uint64
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, e.Pos.Seq)
	}
	if want := []uint64{1, 2, 3, 4, 5}; !slices.Equal(read, want) || len(come) != 1 {
		t.Errorf("events %v were read, want %v; of the stream %d messages were not asked for", read, want, len(come))
	}
}
