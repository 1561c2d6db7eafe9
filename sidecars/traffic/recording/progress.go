package recording

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/record"
)

// Full is the reason of lost exchanges that had no room in the recording.
const Full = "full"

// Name names a TrafficCapture.
type Name struct{ Namespace, Name string }

// Progress is how far a recording has come. It is JSON.
type Progress struct {
	// Captures are those that were created, and Ready whether all have been ready.
	Captures []Name
	Ready    bool
	// Cursors are where to continue, by REPLICA/NAMESPACE.
	Cursors map[string]*trafficv1.Cursor
	// Taken are the numbers of the exchanges that Each got, of each incarnation of a pod. Left of them had no room.
	Taken []Source
	Left  uint64
	// Counts is the identity when it was counted last: exchanges that were not taken yet are pending. Its pods have their last counters.
	Counts *trafficv1.Counts
}

// Source is an incarnation of the traffic container of a pod, with the numbers of exchanges of one capture.
type Source struct {
	Capture, Pod, Incarnation string
	Numbers                   []*trafficv1.Span
}

// source returns the source of an exchange.
func (p *Progress) source(x *trafficv1.Exchange) *Source {
	for i := range p.Taken {
		if s := &p.Taken[i]; s.Incarnation == x.GetIncarnation() && s.Pod == x.GetPod() && s.Capture == x.GetCaptureUid() {
			return s
		}
	}
	p.Taken = append(p.Taken, Source{x.GetCaptureUid(), x.GetPod(), x.GetIncarnation(), nil})
	return &p.Taken[len(p.Taken)-1]
}

// isNew reports whether an exchange was not taken.
func (p *Progress) isNew(x *trafficv1.Exchange) bool {
	for _, s := range p.source(x).Numbers {
		if s.GetFirst() <= x.GetNumber() && x.GetNumber() <= s.GetLast() {
			return false
		}
	}
	return true
}

// took records an exchange that was taken.
func (p *Progress) took(x *trafficv1.Exchange) {
	s := p.source(x)
	s.Numbers, _ = record.Add(s.Numbers, x.GetNumber(), x.GetNumber())
}

// at records where to continue.
func (p *Progress) at(replica, namespace string, next *trafficv1.Cursor) {
	if p.Cursors == nil {
		p.Cursors = map[string]*trafficv1.Cursor{}
	}
	p.Cursors[replica+"/"+namespace] = next
}

// taken returns the number of exchanges that were taken, and read that of those with room.
func (p *Progress) taken() (n uint64) {
	for _, s := range p.Taken {
		n += record.Size(s.Numbers)
	}
	return n
}

func (p *Progress) read() uint64 { return p.taken() - p.Left }

// count returns the identity of a recording from the reports of replicas now, the last counters of the pods, and the exchanges that were taken: an
// exchange that was taken is stored, whatever has become of the replica. One that a replica has and that was not taken is pending,
// and at the end of the recording evicted.
func (p *Progress) count(end bool, reports ...*trafficv1.Counts) *trafficv1.Counts {
	uids := map[string]string{} // of pods, by incarnation
	before, taken := &trafficv1.Counts{}, &trafficv1.Counts{}
	for _, r := range slices.Concat(reports, []*trafficv1.Counts{p.Counts}) {
		for _, k := range r.GetPods() {
			uids[k.GetPod()+"/"+k.GetIncarnation()] = k.GetPodUid()
		}
	}
	for _, k := range p.Counts.GetPods() {
		// Without numbers: those of a replica that has gone are lost, unless they were taken.
		before.Pods = append(before.Pods, &trafficv1.PodCounts{Pod: k.GetPod(), PodUid: k.GetPodUid(), Incarnation: k.GetIncarnation(), Seen: k.GetSeen(), SampledOut: k.GetSampledOut(), Delivered: k.GetDelivered(), Lost: k.GetLost()})
	}
	for _, s := range p.Taken {
		taken.Pods = append(taken.Pods, &trafficv1.PodCounts{Pod: s.Pod, PodUid: uids[s.Pod+"/"+s.Incarnation], Incarnation: s.Incarnation, Numbers: s.Numbers})
	}
	out := record.Merge(slices.Concat(reports, []*trafficv1.Counts{before, taken})...)
	untaken := out.Stored + out.Evicted - min(p.taken(), out.Stored+out.Evicted)
	if out.Stored, out.Evicted = p.read(), 0; end {
		out.Evicted = untaken
	} else {
		out.Pending += untaken
	}
	if p.Left > 0 {
		out.Lost[Full] = p.Left
	}
	for _, k := range out.Pods {
		k.Numbers = nil
	}
	p.Counts = out
	return out
}

// Identity states how complete a recording with these counts is.
func Identity(c *trafficv1.Counts) string {
	var lost uint64
	var reasons []string
	for _, why := range slices.Sorted(maps.Keys(c.GetLost())) {
		lost += c.GetLost()[why]
		reasons = append(reasons, fmt.Sprintf("%s %d", why, c.GetLost()[why]))
	}
	out := fmt.Sprintf("requests: %d seen = %d stored + %d sampled out + %d evicted + %d lost", c.GetSeen(), c.GetStored(), c.GetSampledOut(), c.GetEvicted(), lost)
	if lost > 0 {
		out += " (" + strings.Join(reasons, ", ") + ")"
	}
	if p := c.GetPending(); p > 0 {
		out += fmt.Sprintf(" + %d on their way", p)
	}
	return out
}
