// Package resource keeps what a sandbox needs for itself: the SignadotObjectLifecycleMethods
// that makes and removes it, and the Secrets with its outputs.
//
//	gather    what runs its units, and what these have given    gather.go
//	Methods   the object that runs its units                    render.go   pure
//	Outputs   the Secrets with what they give                   render.go   pure
//	Conclude  the status                                        decide.go   pure
//	act       write them                                        act.go
//
// The Resource goes when the units of postStop have run; sandboxes wait for that. The Secrets
// belong to it and go with it.
package resource
