package table

import "switchyard.dev/routeserver/table/hamt"

// baseline is what is known of a workload that members stand in for.
type baseline struct {
	*Place
	// members counts those that stand in for it. It is forgotten with the last.
	members int
	byKey   hamt.Map[hamt.Text, *Rule]
	hash    Hash
}

// place gives the one Place of a workload.
func (t *Table) place(w Workload) *Place {
	if b, known := t.baselines.Get(w); known {
		return b.Place
	}
	pack(&w.Kind, &w.Namespace, &w.Name)
	return &Place{w}
}

// baseline gives what is known of a place; nothing yet of a new one.
func (t *Table) baseline(p *Place) baseline {
	if b, known := t.baselines.Get(p.Baseline); known {
		return *b
	}
	return baseline{Place: p}
}

func (f *folding) setBaseline(b *baseline) {
	if b.members == 0 && b.byKey.Len() == 0 {
		f.baselines = f.baselines.Without(f.edit, b.Baseline)
		return
	}
	f.baselines = f.baselines.With(f.edit, b)
}

// ID makes it findable.
func (b *baseline) ID() Workload { return b.Baseline }
