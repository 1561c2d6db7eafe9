// Package corpus generates services, answers of their baselines and of forks with faults, to measure
// comparisons. It knows no comparison: faults, and those among them that noise hides, are decided here.
//
//	kinds.go    the kinds of noise and faults, from a folder
//	text.go     templates of texts, and which texts they can produce
//	noise.go    values that vary from answer to answer
//	service.go  the tree of an answer: its units, quiet and noisy
//	fault.go    changes of a fork at a unit
//	render.go   answers as JSON, in part compressed
//	corpus.go   cases: an endpoint with its answers and its units
package corpus
