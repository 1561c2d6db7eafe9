package delivery

import (
	"testing"
	"time"
)

// TestDecide covers each step, with what must not lead to it.
func TestDecide(t *testing.T) {
	now := time.Unix(1000, 0)
	live, dead := row{generation: 7, key: "k"}, row{generation: 7, key: "k", deleted: true}
	with := func(r row, change func(*row)) *row { change(&r); return &r }
	seen := with(live, func(r *row) { r.applied = 7 })
	mine := func(generation int64) *object { return &object{generation: generation, key: "k"} }
	for name, c := range map[string]struct {
		r *row
		o *object
		// listed is the step with an object of a list, confirmed that with one of the API server.
		listed, confirmed step
	}{
		"nothing":                              {nil, nil, ignore, ignore},
		"an object without a row":              {nil, mine(3), ignore, ignore},
		"a new row":                            {&live, nil, confirm, apply},
		"a row that was never seen there":      {with(live, func(r *row) { r.applied = 6 }), nil, confirm, apply},
		"an older object":                      {&live, mine(6), apply, apply},
		"an object that lost its number":       {seen, mine(0), apply, apply},
		"the object":                           {&live, mine(7), observe, observe},
		"the object, with other members":       {with(live, func(r *row) { r.differs = true }), mine(7), apply, apply},
		"an older object that is deleted":      {&live, &object{generation: 6, key: "k", deleting: true}, observe, observe},
		"it was deleted in the cluster":        {seen, nil, confirm, missing},
		"its lifetime has ended":               {with(*seen, func(r *row) { r.ends = now }), nil, confirm, expire},
		"it was deleted before its end":        {with(*seen, func(r *row) { r.ends = now.Add(1) }), nil, confirm, missing},
		"written again after its end":          {with(live, func(r *row) { r.applied, r.ends = 6, now }), nil, confirm, apply},
		"an object of another manager":         {&live, &object{key: "other"}, confirm, foreign},
		"an object of another row":             {&live, &object{generation: 3, key: "other"}, confirm, foreign},
		"a newer object":                       {&live, mine(8), newer, newer},
		"once newer, and written since":        {with(live, func(r *row) { r.generation, r.newer = 9, 8 }), mine(8), newer, newer},
		"newer and adopted":                    {with(live, func(r *row) { r.newer, r.adopted = 8, 8 }), mine(8), newer, newer},
		"adopted, and written since":           {with(live, func(r *row) { r.generation, r.newer, r.adopted = 9, 8, 8 }), mine(8), apply, apply},
		"a tombstone":                          {&dead, mine(7), remove, remove},
		"a tombstone of an older object":       {&dead, mine(6), remove, remove},
		"a tombstone of a newer object":        {&dead, mine(8), newer, newer},
		"a tombstone, newer and adopted":       {with(dead, func(r *row) { r.newer, r.adopted = 8, 8 }), mine(8), remove, remove},
		"a tombstone, once newer":              {with(dead, func(r *row) { r.newer = 8 }), mine(7), newer, newer},
		"a tombstone of an object that ends":   {&dead, &object{generation: 7, key: "k", deleting: true}, observe, observe},
		"a tombstone without an object":        {&dead, nil, confirm, finish},
		"a tombstone, and another's object":    {&dead, &object{key: "other"}, confirm, finish},
		"a tombstone, and a newer row's":       {&dead, &object{generation: 9, key: "other"}, confirm, finish},
		"a tombstone after the end":            {with(dead, func(r *row) { r.applied, r.ends = 7, now }), nil, confirm, finish},
		"a tombstone that differs":             {with(dead, func(r *row) { r.differs = true }), mine(7), remove, remove},
		"a newer object that is being deleted": {&live, &object{generation: 8, key: "k", deleting: true}, newer, newer},
	} {
		if got := decide(c.r, c.o, false, now); got != c.listed {
			t.Errorf("%s, in a list: step %d, not %d", name, got, c.listed)
		}
		if got := decide(c.r, c.o, true, now); got != c.confirmed {
			t.Errorf("%s: step %d, not %d", name, got, c.confirmed)
		}
	}
}
