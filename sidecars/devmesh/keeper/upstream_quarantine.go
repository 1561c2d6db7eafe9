package keeper

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// quarantine keeps parts from Envoy that it refused, and parts with routes that no route
// server of ours makes (translate.Part.Unfit), so that the others go on being updated. A part is in it until it changes. Meanwhile Envoy has what it had
// for the part's keys, and for keys that are new a route that answers 503 and says
// so: no key that is known goes to the baseline.
type quarantine struct {
	workload table.Workload
	logger   *slog.Logger
	// try puts routes before Envoy and gives its refusal, "" for none. An error
	// means that it could not be asked.
	try func(ctx context.Context, whole translate.Resource) (refusal string, err error)
	// good are the parts that Envoy has.
	good translate.Parts
	// kept are the parts in quarantine, by their place.
	kept map[int]kept
}

// kept is a part in quarantine.
type kept struct {
	version, why string
	sandboxes    []string
	standIn      *translate.Part
}

// maxNamed is how many sandboxes a reason names.
const maxNamed = 8

func (k kept) String() string {
	names := k.sandboxes[:min(len(k.sandboxes), maxNamed)]
	more := ""
	if len(names) < len(k.sandboxes) {
		more = fmt.Sprintf(" and %d more", len(k.sandboxes)-len(names))
	}
	return fmt.Sprintf("sandboxes %s%s: %s", strings.Join(names, ", "), more, k.why)
}

// bring brings what was received, which makes the whole, to Envoy, all but what it
// refuses of it. It gives the reason why the whole is not in use, "" when it is. The
// error is that of try.
func (q *quarantine) bring(ctx context.Context, r *received, whole translate.Resource) (reason string, err error) {
	usable := r.parts
	for i, k := range q.kept {
		if p := r.parts[i]; p == nil || p.Version != k.version {
			delete(q.kept, i)
			continue
		}
		usable[i] = k.standIn
	}
	q.holdBack(&usable)
	var refusal string
	if len(q.kept) == 0 {
		refusal, err = q.put(ctx, whole, &usable)
	} else {
		refusal, err = q.attempt(ctx, r.head, &usable)
	}
	if err == nil && refusal != "" {
		refusal, err = q.search(ctx, r, usable, refusal)
	}
	if err != nil || refusal != "" {
		return refusal, err
	}
	return q.reason(), nil
}

// holdBack puts stand-ins in the place of parts that are new and have routes that no
// route server of ours makes: Envoy does not see those.
func (q *quarantine) holdBack(usable *translate.Parts) {
	for i, p := range usable {
		if _, in := q.kept[i]; in || !q.isNew(i, p) {
			continue
		}
		if err := p.Unfit(); err != nil {
			k := q.inPlaceOf(i, p, err.Error())
			q.keep(i, p.Name, k)
			usable[i] = k.standIn
		}
	}
}

// isNew reports whether a part is there and not the one that Envoy has in its place.
func (q *quarantine) isNew(i int, p *translate.Part) bool {
	return p != nil && (q.good[i] == nil || q.good[i].Version != p.Version)
}

// inPlaceOf returns what stands in the place of a part that is kept from Envoy.
func (q *quarantine) inPlaceOf(i int, p *translate.Part, why string) kept {
	k := kept{version: p.Version, why: why, sandboxes: translate.Differing(p, q.good[i])}
	var err error
	if k.standIn, err = translate.StandIn(q.workload, p, q.good[i]); err != nil {
		k.standIn = q.good[i]
	}
	return k
}

// keep puts a part in quarantine.
func (q *quarantine) keep(i int, name string, k kept) {
	q.logger.Error("routes are kept from Envoy until they change, and those it had stay",
		"part", name, "sandboxes", k.sandboxes, "error", k.why)
	q.kept[i] = k
}

// attempt puts some parts before Envoy.
func (q *quarantine) attempt(ctx context.Context, head *translate.Head, parts *translate.Parts) (refusal string, err error) {
	whole, err := translate.Compose(head, parts)
	if err != nil {
		return err.Error(), nil
	}
	return q.put(ctx, whole, parts)
}

// put puts the whole that some parts make before Envoy.
func (q *quarantine) put(ctx context.Context, whole translate.Resource, parts *translate.Parts) (refusal string, err error) {
	refusal, err = q.try(ctx, whole)
	if err == nil && refusal == "" {
		q.good = *parts
	}
	return refusal, err
}

// search finds out which of the parts that changed Envoy refuses, and puts them in
// quarantine. It begins with stand-ins for all of them, and tries one after the
// other as it is. It gives a refusal when Envoy takes not even the stand-ins.
func (q *quarantine) search(ctx context.Context, r *received, usable translate.Parts, why string) (refusal string, err error) {
	changed := map[int]kept{}
	base := usable
	for i, p := range usable {
		if _, in := q.kept[i]; in || !q.isNew(i, p) {
			continue
		}
		k := q.inPlaceOf(i, p, "Envoy refuses them: "+why)
		changed[i], base[i] = k, k.standIn
	}
	if len(changed) == 0 {
		return why, nil // it is the head that it refuses
	}
	refusal, err = q.attempt(ctx, r.head, &base)
	if err != nil || refusal != "" {
		return refusal, err
	}
	if len(changed) > 1 {
		if err := q.eachAlone(ctx, r.head, &usable, &base, changed); err != nil {
			return "", err // which are at fault is not known, so none is kept
		}
	}
	for i, k := range changed {
		q.keep(i, r.parts[i].Name, k)
	}
	return "", nil
}

// eachAlone tries the parts that changed one by one, on top of what Envoy has. What
// it takes is no longer among the changed.
func (q *quarantine) eachAlone(ctx context.Context, head *translate.Head, usable, base *translate.Parts, changed map[int]kept) error {
	for i := range usable {
		k, is := changed[i]
		if !is {
			continue
		}
		with := *base
		with[i] = usable[i]
		refusal, err := q.attempt(ctx, head, &with)
		if err != nil {
			return err
		}
		if refusal == "" {
			*base = with
			delete(changed, i)
			continue
		}
		k.why = "Envoy refuses them: " + refusal
		changed[i] = k
	}
	return nil
}

// reason says what is in quarantine, "" if nothing is.
func (q *quarantine) reason() string {
	var all []string
	for i := range translate.PartCount {
		if k, in := q.kept[i]; in {
			all = append(all, k.String())
		}
	}
	if all == nil {
		return ""
	}
	return "these routes are not in use: " + strings.Join(all, "; ")
}
