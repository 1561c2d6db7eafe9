package manager

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/sidecars/traffic/ring"
)

const (
	// atOnce is how many bytes of exchanges are read from the disk at once.
	atOnce = 256 << 10
	// recheck is how often a follower checks whether its capture has ended.
	recheck = time.Second
)

// Read implements trafficv1.ReadersServer.
func (s *server) Read(r *trafficv1.ReadRequest, stream trafficv1.Readers_ReadServer) error {
	ctx := stream.Context()
	uid, leave, err := s.reader(ctx, r.GetCaptureNamespace(), r.GetCapture())
	if err != nil {
		return err
	}
	defer leave()
	position, gap := s.begin(uid, r.GetFrom())
	current := false
	for first := true; ; first = false {
		// In this order: whatever came before the end of the capture is read after that is known.
		closed, next := s.books.closed(uid), s.ring.Next()
		records, missed, err := s.ring.Read(uid, &position, atOnce)
		if err != nil {
			s.cfg.Logger.Error("exchanges cannot be read", "folder", s.cfg.Store, "capture", uid, "error", err)
			return status.Error(codes.DataLoss, "the stored exchanges cannot be read: "+err.Error())
		}
		offset := position.Offset - uint64(len(records))
		if gap.Evicted += missed; first || missed > 0 {
			if err := stream.Send(&trafficv1.Entry{Next: s.cursor(offset), Gap: gap}); err != nil {
				return err
			}
			gap = &trafficv1.Gap{}
		}
		if err := s.send(stream, records, offset); err != nil {
			return err
		}
		if len(records) > 0 {
			current = false
			continue
		}
		if !current {
			if err := stream.Send(&trafficv1.Entry{Next: s.cursor(offset), Current: true}); err != nil {
				return err
			}
			current = true
		}
		if !r.GetFollow() || closed {
			return nil
		}
		if err := s.wait(ctx, next); err != nil {
			return err
		}
	}
}

// wait waits for the next exchange of any capture, or for a while.
func (s *server) wait(ctx context.Context, next <-chan struct{}) error {
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	select {
	case <-next:
	case <-timer.C:
	case <-s.stopping:
		return status.Error(codes.Unavailable, "this replica terminates: its exchanges are lost")
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (s *server) send(stream trafficv1.Readers_ReadServer, records []ring.Record, offset uint64) error {
	for _, one := range records {
		e := &trafficv1.Exchange{}
		if err := proto.Unmarshal(one.Data, e); err != nil {
			return status.Error(codes.DataLoss, "a stored exchange cannot be read: "+err.Error())
		}
		offset++
		if err := stream.Send(&trafficv1.Entry{Next: s.cursor(offset), Exchange: e}); err != nil {
			return err
		}
	}
	return nil
}

// begin returns where to read from, and what a reader with this cursor has missed for another reason than eviction.
func (s *server) begin(uid string, from *trafficv1.Cursor) (ring.Position, *trafficv1.Gap) {
	_, end := s.ring.Extent(uid)
	switch {
	case from == nil:
		return ring.Position{}, &trafficv1.Gap{}
	case from.GetReplica() != s.cfg.Replica, from.GetEpoch() != s.ring.Epoch(), from.GetOffset() > end:
		return ring.Position{}, &trafficv1.Gap{Reason: record.Restart}
	}
	return ring.Position{Offset: from.GetOffset()}, &trafficv1.Gap{}
}

func (s *server) cursor(offset uint64) *trafficv1.Cursor {
	return &trafficv1.Cursor{Replica: s.cfg.Replica, Epoch: s.ring.Epoch(), Offset: offset}
}

// Counts implements trafficv1.ReadersServer.
func (s *server) Counts(ctx context.Context, r *trafficv1.CountsRequest) (*trafficv1.Counts, error) {
	uid, leave, err := s.reader(ctx, r.GetCaptureNamespace(), r.GetCapture())
	if err != nil {
		return nil, err
	}
	defer leave()
	evicted, _ := s.ring.Extent(uid)
	known := &trafficv1.Counts{Evicted: evicted, Pods: s.books.pods(uid)}
	total := record.Merge(known)
	total.Pods, total.Restricts = known.Pods, true // the sums, and the pods as they were reported
	return total, nil
}
