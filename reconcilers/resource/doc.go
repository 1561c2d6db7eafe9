// Package resource keeps the objects behind a resource of a sandbox: the SignadotObjectLifecycleMethods
// that provisions and removes it, and the Secrets with its outputs.
//
//	gather    the object that runs its units, and its outputs   act.go
//	Methods   the object that runs its units                    render.go   pure
//	Outputs   the Secrets with the outputs                      render.go   pure
//	Conclude  the status                                        decide.go   pure
//	act       write them                                        act.go
//
// The Resource is deleted after the units of postStop have run; sandboxes wait for that. The Secrets are
// owned by it and are deleted with it.
package resource
