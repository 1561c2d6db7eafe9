package attach

import (
	"context"
	"fmt"

	"switchyard.dev/eventbus/wake"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/capture"
	"switchyard.dev/sidecars/traffic/record"
)

// delivery hands batches to traffic-manager, one after the other. It is used by one goroutine.
type delivery struct {
	agent    *Agent
	client   trafficv1.SidecarsClient
	stream   trafficv1.Sidecars_DeliverClient
	end      context.CancelFunc
	sequence uint64
}

// Append implements records.Sink. It returns once the batch is acknowledged, and a little later if the batch was small: a batch
// costs more than a request, and more exchanges gather.
func (d *delivery) Append(ctx context.Context, batch []capture.Finished) error {
	stored, err := d.deliver(ctx, batch)
	if err != nil {
		d.close()
		return fmt.Errorf("deliver exchanges to traffic-manager: %w", err)
	}
	refused := map[string]bool{}
	for _, id := range stored.GetRefused() {
		refused[id] = true
	}
	size := 0
	for _, f := range batch {
		size += f.Size
		if refused[f.GetId()] {
			d.agent.recorder.Lost(f, record.Refused)
		} else {
			d.agent.recorder.Delivered(f)
		}
	}
	if size < atOnce/2 {
		wake.Sleep(ctx, gather)
	}
	return nil
}

func (d *delivery) deliver(ctx context.Context, batch []capture.Finished) (*trafficv1.Stored, error) {
	if d.stream == nil {
		ctx, cancel := context.WithCancel(ctx)
		d.end = cancel
		ctx, err := d.agent.authorized(ctx)
		if err != nil {
			return nil, err
		}
		if d.stream, err = d.client.Deliver(ctx); err != nil {
			return nil, err
		}
		d.sequence = 0
	}
	d.sequence++
	message := &trafficv1.Batch{Sequence: d.sequence}
	captures := map[string]bool{}
	for _, f := range batch {
		message.Exchanges = append(message.Exchanges, f.Exchange)
		captures[f.GetCaptureUid()] = true
	}
	for uid := range captures {
		message.Counts = append(message.Counts, d.agent.recorder.Counts(uid)...)
	}
	if err := d.stream.Send(message); err != nil {
		_, err = d.stream.Recv() // it has the reason
		return nil, err
	}
	for {
		stored, err := d.stream.Recv()
		if err != nil || stored.GetSequence() == d.sequence {
			return stored, err
		}
	}
}

// ended counts exchanges that are left at the end.
func (d *delivery) ended(rest []capture.Finished) {
	for _, f := range rest {
		d.agent.recorder.Lost(f, record.Ended)
	}
}

// close ends the stream. The next batch opens another one.
func (d *delivery) close() {
	if d.end != nil {
		d.end()
	}
	d.stream, d.end = nil, nil
}

// Close implements io.Closer.
func (d *delivery) Close() error {
	d.close()
	return nil
}
