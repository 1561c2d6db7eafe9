// Package policies finds the policies that apply to an object of an owner and not to what the
// operator creates beside it. A derived HTTPRoute or GRPCRoute has another name than its
// original, and the pods of a fork lack labels of their baseline. So a policy that attaches by
// one of these applies to the original alone.
//
//	Kind         which kinds of objects are policies              kinds.go
//	Policy       one such object, and what of it is cached        policy.go, selectors.go
//	OnRoute      policies that do not apply to a derived route    routes.go
//	OnWorkload   policies that do not apply to the pods of a fork workloads.go
//	Mode         what to do then                                  mode.go
//
// The package is pure. It does not find: policies that attach by something else than names,
// labels and annotations of the object, such as a path or a host name (these apply to derived
// routes too), and kinds that are not listed. A policy counts for all rules of its route, also
// where it names one of them (sectionName).
package policies
