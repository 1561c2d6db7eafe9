package record

import (
	"cmp"
	"maps"
	"slices"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// Merge returns the identity of a capture from the reports of all replicas: of their fields pods and evicted. Exchanges
// that only a replica without a report has stored appear as lost(restart), and so do those that were in
// flight in pods that are attached to no replica.
func Merge(all ...*trafficv1.Counts) *trafficv1.Counts {
	type incarnation struct{ pod, name string }
	pods := map[incarnation]*trafficv1.PodCounts{}
	total := &trafficv1.Counts{Lost: map[string]uint64{}}
	for _, counts := range all {
		total.Evicted += counts.GetEvicted()
		for _, p := range counts.GetPods() {
			of := incarnation{cmp.Or(p.GetPodUid(), p.GetPod()), p.GetIncarnation()}
			if pods[of] == nil {
				pods[of] = &trafficv1.PodCounts{Pod: p.GetPod(), PodUid: p.GetPodUid(), Incarnation: p.GetIncarnation(), Lost: map[string]uint64{}}
			}
			join(pods[of], p)
		}
	}
	var stored uint64
	for _, p := range pods {
		pending := settle(p)
		total.Pods = append(total.Pods, p)
		total.Seen, total.SampledOut, total.Pending = total.Seen+p.Seen, total.SampledOut+p.SampledOut, total.Pending+pending
		stored += p.Stored
		for reason, n := range p.Lost {
			total.Lost[reason] += n
		}
	}
	total.Evicted = min(total.Evicted, stored)
	total.Stored = stored - total.Evicted
	slices.SortFunc(total.Pods, func(a, b *trafficv1.PodCounts) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return total
}

// join adds the report of one replica about a pod. Counters of the container only grow, and each replica knows a former value.
func join(to, p *trafficv1.PodCounts) {
	to.Seen, to.SampledOut, to.Delivered = max(to.Seen, p.GetSeen()), max(to.SampledOut, p.GetSampledOut()), max(to.Delivered, p.GetDelivered())
	for reason, n := range p.GetLost() {
		if reason != Restart { // which is computed
			to.Lost[reason] = max(to.Lost[reason], n)
		}
	}
	for _, s := range p.GetNumbers() {
		to.Numbers, _ = Add(to.Numbers, s.GetFirst(), s.GetLast())
	}
	to.Attached, to.Applied = to.Attached || p.GetAttached(), to.Applied || p.GetApplied()
	to.Problem, to.Unknown = cmp.Or(to.Problem, p.GetProblem()), to.Unknown || p.GetUnknown()
}

// settle computes how many exchanges of a pod are stored, and adds to the lost ones. It returns how many are pending.
func settle(p *trafficv1.PodCounts) (pending uint64) {
	p.Stored = Size(p.Numbers)
	known := p.SampledOut + p.Stored
	for _, n := range slices.Collect(maps.Values(p.Lost)) {
		known += n
	}
	p.Seen = max(p.Seen, known)
	missing := p.Seen - known
	restart := missing
	if p.Attached {
		restart = min(missing, p.Delivered-min(p.Delivered, p.Stored))
	}
	if restart > 0 {
		p.Lost[Restart] += restart
	}
	return missing - restart
}

// Add adds the numbers first to last to a set of numbers, in which spans are sorted, apart and not adjacent. It reports whether
// one of them was missing. The set is changed.
func Add(set []*trafficv1.Span, first, last uint64) ([]*trafficv1.Span, bool) {
	// The first span that ends at first or later, or just before it.
	i, _ := slices.BinarySearchFunc(set, first, func(s *trafficv1.Span, first uint64) int {
		if s.Last+1 < first {
			return -1
		}
		return 1
	})
	end := i
	for end < len(set) && set[end].First <= last+1 {
		end++
	}
	if i == end {
		return slices.Insert(set, i, &trafficv1.Span{First: first, Last: last}), true
	}
	if end == i+1 && set[i].First <= first && last <= set[i].Last {
		return set, false
	}
	joined := &trafficv1.Span{First: min(first, set[i].First), Last: max(last, set[end-1].Last)}
	return slices.Replace(set, i, end, joined), true
}

// Size returns how many numbers are in a set.
func Size(set []*trafficv1.Span) (n uint64) {
	for _, s := range set {
		n += s.Last - s.First + 1
	}
	return n
}
