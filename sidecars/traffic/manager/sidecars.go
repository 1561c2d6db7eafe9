package manager

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/ring"
	"switchyard.dev/xds/serve"
)

const (
	// reportWithin is how long a container may report nothing on an Attach stream.
	reportWithin = time.Minute
	// streamAge is how long a stream lasts; the container then shows its token again.
	streamAge = time.Hour
	// maxVersions is how many versions a container may be behind.
	maxVersions = 64
)

// attachments returns what a pod has to do, with the authorities of the present certificate, and why some of its captures
// record nothing, by UID. The pod can deliver for its captures from now on.
func (s *server) attachments(ctx context.Context, who serve.Peer) (out *trafficv1.Attachments, unfit map[string]string, err error) {
	namespace := who.Namespace
	if s.isReplica(who) {
		namespace = ""
	}
	all, err := s.cluster.captures(ctx, namespace)
	if err != nil {
		return nil, nil, status.Error(codes.Unavailable, err.Error())
	}
	captures := capturesOf(namespace, types.UID(who.UID), all, s.cfg.Always)
	if s.books.grant(who.UID, captures...) {
		// Before the ring has exchanges of a capture, its name is on disk.
		if err := s.save(); err != nil {
			return nil, nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	unfit = clearUnfit(captures)
	out = &trafficv1.Attachments{Captures: captures, Authorities: []byte(s.cfg.TLS.Roots().PEM())}
	out.Override, out.Restricted = overridesOf(captures, all)
	return out, unfit, nil
}

// Attach implements trafficv1.SidecarsServer.
func (s *server) Attach(stream trafficv1.Sidecars_AttachServer) error {
	who, leave, err := s.sidecar(stream.Context(), s.attaches)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(stream.Context(), streamAge)
	defer cancel()
	a := s.books.begin(who.UID)
	defer s.books.end(who.UID, a)
	reports, failed := make(chan *trafficv1.Applied), make(chan error, 1)
	go func() { failed <- receive(ctx, stream.Recv, reports) }()
	last, silent := &trafficv1.Attachments{}, time.NewTimer(reportWithin)
	sent := map[uint64][]*trafficv1.Capture{}
	for {
		changed := s.cluster.changed.Next()
		next, unfit, err := s.attachments(ctx, who)
		if err != nil {
			return err
		}
		if next.Version = last.GetVersion(); next.Version == 0 || !proto.Equal(next, last) {
			next.Version++
			if err := stream.Send(next); err != nil {
				return err
			}
			last, sent[next.Version] = next, next.GetCaptures()
			delete(sent, next.Version-min(next.Version, maxVersions))
		}
		select {
		case <-changed:
		case applied := <-reports:
			silent.Reset(reportWithin)
			of := source{who.Pod, who.UID, applied.GetIncarnation()}
			s.books.report(of, applied.GetCounts())
			if applied.GetVersion() == 0 {
				continue // it applies nothing yet, or has ended
			}
			s.books.attach(a, stateOf(applied, sent[applied.GetVersion()], last, unfit, of))
		case <-a.replaced:
			return status.Error(codes.Aborted, "the pod has opened another stream")
		case err := <-failed:
			return unlessEOF(err)
		case <-silent.C:
			return status.Errorf(codes.DeadlineExceeded, "the pod has reported nothing for %s", reportWithin)
		case <-s.stopping:
			return status.Error(codes.Unavailable, "this replica terminates: connect again")
		case <-ctx.Done():
			return status.Error(codes.Unavailable, "the stream ends: connect again")
		}
	}
}

// maxProblem bounds the text with which a container explains that it does not apply its captures.
const maxProblem = 1 << 10

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxProblem)], "") }

// receive sends the messages of a stream to a channel until one of them ends.
func receive[T any](ctx context.Context, next func() (T, error), to chan<- T) error {
	for {
		one, err := next()
		if err != nil {
			return err
		}
		select {
		case to <- one:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unlessEOF returns the status of a stream that the client has ended.
func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Deliver implements trafficv1.SidecarsServer.
func (s *server) Deliver(stream trafficv1.Sidecars_DeliverServer) error {
	who, leave, err := s.sidecar(stream.Context(), s.delivers)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(stream.Context(), streamAge)
	defer cancel()
	batches, failed := make(chan *trafficv1.Batch), make(chan error, 1)
	go func() { failed <- receive(ctx, stream.Recv, batches) }()
	for {
		select {
		case batch := <-batches:
			refused, err := s.store(ctx, who, batch)
			if err != nil {
				return err
			}
			if err := stream.Send(&trafficv1.Stored{Sequence: batch.GetSequence(), Refused: refused}); err != nil {
				return err
			}
		case err := <-failed:
			return unlessEOF(err)
		case <-s.stopping:
			return status.Error(codes.Unavailable, "this replica terminates: connect again")
		case <-ctx.Done():
			return status.Error(codes.Unavailable, "the stream ends: connect again")
		}
	}
}

// store writes the exchanges of a batch into the ring, except those that are there, and returns the IDs of those that never will be.
func (s *server) store(ctx context.Context, who serve.Peer, batch *trafficv1.Batch) (refused []string, err error) {
	if _, _, err := s.attachments(ctx, who); err != nil {
		return nil, err
	}
	// The same exchange may come over two streams of the pod.
	storing := &s.storing[crc32.ChecksumIEEE([]byte(who.UID))%uint32(len(s.storing))]
	storing.Lock()
	defer storing.Unlock()
	var fresh []ring.Record
	for _, e := range batch.GetExchanges() {
		of := source{who.Pod, who.UID, e.GetIncarnation()}
		permitted, is := s.books.fresh(e.GetCaptureUid(), of, e.GetNumber())
		if !permitted {
			refused = append(refused, e.GetId())
			continue
		}
		if !is {
			s.exchanges.WithLabelValues("repeated").Inc()
			continue
		}
		e.Pod = who.Pod
		text, err := proto.Marshal(e)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		fresh = append(fresh, ring.Record{Capture: e.GetCaptureUid(), Source: of.String(), Number: e.GetNumber(), Data: text})
	}
	if len(fresh) > 0 {
		if err := s.ring.Append(fresh...); err != nil {
			s.cfg.Logger.Error("exchanges cannot be stored", "pod", who.Namespace+"/"+who.Pod, "error", err)
			return nil, status.Error(codes.Unavailable, "the exchanges cannot be stored: try again")
		}
		s.books.stored(fresh...)
	}
	// Counts are those of one incarnation.
	if all := lists.Unique(lists.Map(batch.GetExchanges(), (*trafficv1.Exchange).GetIncarnation)); len(all) == 1 {
		s.books.report(source{who.Pod, who.UID, all[0]}, batch.GetCounts())
	}
	s.exchanges.WithLabelValues("stored").Add(float64(len(fresh)))
	s.exchanges.WithLabelValues("refused").Add(float64(len(refused)))
	return refused, nil
}
