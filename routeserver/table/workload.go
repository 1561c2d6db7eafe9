package table

import (
	"cmp"

	"switchyard.dev/routeserver/table/hamt"
)

// Workload names a baseline as the routes API does: kind is Deployment or
// ArgoRollout.
type Workload struct {
	Kind, Namespace, Name string
}

// Named is a message that names an object.
type Named interface {
	GetKind() string
	GetNamespace() string
	GetName() string
}

// WorkloadOf returns the workload that a message names.
func WorkloadOf(o Named) Workload { return Workload{o.GetKind(), o.GetNamespace(), o.GetName()} }

// Compare orders workloads by kind, namespace and name: negative when w comes
// first, 0 when they are the same.
func (w Workload) Compare(other Workload) int {
	return cmp.Or(
		cmp.Compare(w.Kind, other.Kind),
		cmp.Compare(w.Namespace, other.Namespace),
		cmp.Compare(w.Name, other.Name),
	)
}

// workloadID is a workload that maps can find.
type workloadID Workload

// Hash makes it an identity.
func (id workloadID) Hash() uint64 {
	w := wordsOf(Workload(id))
	return w.hash()
}

// workloadWords are a workload in words. Comparing them costs less than comparing
// the texts, and touches less memory.
type workloadWords struct{ kind, namespace, name hamt.Words }

func wordsOf(w Workload) workloadWords {
	return workloadWords{hamt.WordsOf(w.Kind), hamt.WordsOf(w.Namespace), hamt.WordsOf(w.Name)}
}

func (w *workloadWords) hash() uint64 { return w.name.Hash(w.namespace.Hash(w.kind.Hash(0))) }

// exact reports whether equal words mean equal workloads.
func (w *workloadWords) exact() bool { return w.name.Exact() && w.namespace.Exact() && w.kind.Exact() }

// newPlace returns the place of a workload that has none yet.
func newPlace(w Workload) *Place {
	pack(&w.Kind, &w.Namespace, &w.Name)
	words := wordsOf(w)
	return &Place{words, words.hash(), w}
}
