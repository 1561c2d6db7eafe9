package assembly

import (
	"fmt"
	"strings"

	"switchyard.dev/xds/translate"
)

// Try puts routes before the proxy and returns its refusal, "" for none. An error means
// that it could not be asked.
type Try func(whole translate.Resource) (refusal string, err error)

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

// Bring offers the received routes to the proxy, without the parts that it refuses. whole is
// the composition of all parts. Bring returns the reason why parts of the whole are not in use,
// or "". The error is that of try.
func (a *Assembly) Bring(whole translate.Resource, try Try) (reason string, err error) {
	usable := a.parts
	for i, k := range a.kept {
		if p := a.parts[i]; p == nil || p.Version != k.version {
			delete(a.kept, i)
			continue
		}
		usable[i] = k.standIn
	}
	a.holdBack(&usable)
	var refusal string
	if len(a.kept) == 0 {
		refusal, err = a.put(whole, &usable, try)
	} else {
		refusal, err = a.attempt(&usable, try)
	}
	if err == nil && refusal != "" {
		refusal, err = a.search(usable, refusal, try)
	}
	if err != nil || refusal != "" {
		return refusal, err
	}
	return a.reason(), nil
}

// holdBack replaces new parts that contain routes which no route server of the operator
// produces by stand-ins, so that the proxy never sees them.
func (a *Assembly) holdBack(usable *translate.Parts) {
	for i, p := range usable {
		if _, in := a.kept[i]; in || !a.isNew(i, p) {
			continue
		}
		if err := p.Unfit(); err != nil {
			k := a.inPlaceOf(i, p, err.Error())
			a.keep(i, p.Name, k)
			usable[i] = k.standIn
		}
	}
}

// isNew reports whether a part is there and not the one that the proxy has in its place.
func (a *Assembly) isNew(i int, p *translate.Part) bool {
	return p != nil && (a.good[i] == nil || a.good[i].Version != p.Version)
}

// inPlaceOf returns the stand-in for a part that is withheld from the proxy.
func (a *Assembly) inPlaceOf(i int, p *translate.Part, why string) kept {
	k := kept{version: p.Version, why: why, sandboxes: translate.Differing(p, a.good[i])}
	var err error
	if k.standIn, err = translate.StandIn(a.workload, p, a.good[i]); err != nil {
		k.standIn = a.good[i]
	}
	return k
}

// keep puts a part in quarantine.
func (a *Assembly) keep(i int, name string, k kept) {
	a.held(name, k.sandboxes, k.why)
	a.kept[i] = k
}

// attempt puts some parts before the proxy.
func (a *Assembly) attempt(parts *translate.Parts, try Try) (refusal string, err error) {
	whole, err := translate.Compose(a.head, parts)
	if err != nil {
		return err.Error(), nil
	}
	return a.put(whole, parts, try)
}

// put puts the whole that some parts make before the proxy.
func (a *Assembly) put(whole translate.Resource, parts *translate.Parts, try Try) (refusal string, err error) {
	refusal, err = try(whole)
	if err == nil && refusal == "" {
		a.good = *parts
	}
	return refusal, err
}

// search finds out which of the parts that changed the proxy refuses, and puts them in
// quarantine. It begins with stand-ins for all of them, and tries one after the
// other as it is. It returns a refusal when the proxy takes not even the stand-ins.
func (a *Assembly) search(usable translate.Parts, why string, try Try) (refusal string, err error) {
	changed := map[int]kept{}
	base := usable
	for i, p := range usable {
		if _, in := a.kept[i]; in || !a.isNew(i, p) {
			continue
		}
		k := a.inPlaceOf(i, p, "Envoy refuses them: "+why)
		changed[i], base[i] = k, k.standIn
	}
	if len(changed) == 0 {
		return why, nil // it is the head that it refuses
	}
	refusal, err = a.attempt(&base, try)
	if err != nil || refusal != "" {
		return refusal, err
	}
	if len(changed) > 1 {
		if err := a.eachAlone(&usable, &base, changed, try); err != nil {
			return "", err // which are at fault is not known, so none is kept
		}
	}
	for i, k := range changed {
		a.keep(i, a.parts[i].Name, k)
	}
	return "", nil
}

// eachAlone tries the parts that changed one by one, on top of what the proxy has. What
// it takes is no longer among the changed.
func (a *Assembly) eachAlone(usable, base *translate.Parts, changed map[int]kept, try Try) error {
	for i := range usable {
		k, is := changed[i]
		if !is {
			continue
		}
		with := *base
		with[i] = usable[i]
		refusal, err := a.attempt(&with, try)
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

// reason describes the parts in quarantine; it returns "" if there are none.
func (a *Assembly) reason() string {
	var all []string
	for i := range translate.PartCount {
		if k, in := a.kept[i]; in {
			all = append(all, k.String())
		}
	}
	if all == nil {
		return ""
	}
	return "these routes are not in use: " + strings.Join(all, "; ")
}
