package table

// baseline is the known state of a workload that members represent.
type baseline struct {
	*Place
	// members counts those that represent it, and the declarations that state it of one.
	// It is forgotten with the last.
	members int
	// rules counts its rules, and hash is that of them all.
	rules int
	hash  Hash
}

// place returns the one Place of a workload.
func (t *Table) place(w Workload) *Place {
	if b, known := t.baselines.Get(workloadID(w)); known {
		return b.Place
	}
	return newPlace(w)
}

// baseline returns the known state of a place; empty for a new one.
func (t *Table) baseline(p *Place) baseline {
	if b, known := t.baselines.Get(workloadID(p.Baseline)); known {
		return *b
	}
	return baseline{Place: p}
}

func (f *folding) setBaseline(b *baseline) {
	if b.members == 0 && b.rules == 0 {
		f.baselines = f.baselines.Without(f.edit, b.ID())
		return
	}
	f.baselines = f.baselines.With(f.edit, b)
}

// ID makes it findable.
func (b *baseline) ID() workloadID { return workloadID(b.Baseline) }
