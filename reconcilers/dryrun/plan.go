package dryrun

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/routingkey"
)

// plan returns the Plan after the simulation has settled.
func (s *simulation) plan(subjects []identity) Plan {
	p := Plan{Refusals: s.refusals, Unknown: s.world.unknown}
	facts := slices.SortedFunc(maps.Values(s.statements.newest), byPosition)
	for _, r := range facts {
		p.Statements = append(p.Statements, withoutInventions(r.Fact))
	}
	for _, id := range s.world.wrote {
		if action, ok := actionOf(s.world.read[id], s.world.written[id]); ok {
			p.Changes = append(p.Changes, Change{id.object(), action})
		}
	}
	p.Changes = append(p.Changes, s.meshChanges()...)
	p.Findings = append(s.findings(subjects), s.waiting...)
	return p
}

// byPosition orders facts as they are on the log.
func byPosition(a, b event.Recorded) int { return cmp.Compare(a.Pos.Seq, b.Pos.Seq) }

// actionOf returns the action on an object, and whether anything but its status changed. nil means that
// the object does not exist.
func actionOf(before, after client.Object) (Action, bool) {
	switch {
	case before == nil:
		return Create, after != nil
	case after == nil, after.GetDeletionTimestamp() != nil && before.GetDeletionTimestamp() == nil:
		return Remove, true
	}
	return Update, before.GetGeneration() != after.GetGeneration() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// findings returns the findings about the subjects, their parts and other changed objects. A condition
// that a part and its owner share is returned once.
func (s *simulation) findings(subjects []identity) []Finding {
	var all []reported
	about := func(id identity, o client.Object) {
		for _, f := range findingsOf(id.object(), o) {
			if f, counts := s.besideMeshes(o, f); counts {
				all = deduplicate(all, f)
			}
		}
	}
	var wholes []client.Object
	for _, id := range subjects {
		if o := s.world.current(id); o != nil {
			wholes = append(wholes, o)
			about(id, o)
		}
	}
	part := func(o client.Object) bool {
		return slices.ContainsFunc(wholes, func(whole client.Object) bool { return apply.IsOwned(o, whole.GetUID()) })
	}
	for _, id := range s.looked {
		o := s.world.current(id)
		if o == nil {
			continue
		}
		if _, written := s.world.written[id]; written || part(o) {
			about(id, o)
		}
	}
	return lists.Map(all, func(t reported) Finding { return t.Finding })
}

// reported is a finding that a longer message of another object may replace.
type reported struct {
	Finding
	// core is the message that it came with.
	core string
}

// deduplicate adds a finding, unless a finding with the same reason has the message within its own. If the
// new message is the longer one, it replaces the other.
func deduplicate(all []reported, f Finding) []reported {
	for _, t := range lists.Pointers(all) {
		switch {
		case t.Reason != f.Reason, t.core == "", f.Message == "":
		case strings.Contains(t.Message, f.Message):
			return all
		case strings.Contains(f.Message, t.core):
			if len(f.Message) > len(t.Message) {
				t.Message = f.Message
			}
			return all
		}
	}
	return append(all, reported{f, f.Message})
}

// findingsOf returns the conditions of an object that need attention: those that are False and remarks
// or, if there are none, those that are Unknown. Pods that still have to start are not a finding.
func findingsOf(of Object, o client.Object) []Finding {
	conditioned, ok := o.(crdv1.Conditioned)
	if !ok {
		return nil
	}
	var no, open []Finding
	for _, c := range *conditioned.StatusConditions() {
		f := Finding{Object: of, Type: c.Type, Reason: c.Reason, Status: c.Status, Message: c.Message}
		switch {
		case c.Type == crdv1.ConditionReady, c.Reason == forkedworkload.ReasonForkProgressing:
		case c.Status == string(metav1.ConditionFalse), isRemark(o, c):
			no = append(no, f)
		case c.Status == string(metav1.ConditionUnknown):
			open = append(open, f)
		}
	}
	if len(no) == 0 {
		return open
	}
	return no
}

// isRemark reports whether a condition that is True has a remark: a warning about the routing key, or a
// caveat of a member.
func isRemark(o client.Object, c crdv1.StatusCondition) bool {
	if c.Reason == routingkey.ReasonWarning {
		return true
	}
	m, ok := o.(crdv1.Member)
	return ok && slices.ContainsFunc(baseline.Caveats(m), func(caveat crdv1.StatusCondition) bool { return caveat.Type == c.Type })
}
