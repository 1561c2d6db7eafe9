// Package v1 contains the Go types of the custom resources, group signadot.com, version v1, and
// the few pure functions that all readers and writers of them need: conditions, object names,
// well-known labels and annotations.
//
// # The kinds
//
//	SignadotSandbox, SignadotRouteGroup                     what a user asks for
//	ForkedWorkload, SignadotExternalWorkload,
//	VirtualWorkload                                         the members of a sandbox
//	RoutingConfig                                           what one routing key reaches
//	IstioRoute, GatewayAPIRoute                             one service under one key, in a mesh
//	Resource, SignadotObjectLifecycleMethods                units that run for a sandbox, and their objects
//	JobRunnerGroup, Job                                     tests that run in a sandbox's context
//
// The schemas are the published ones, field by field: an object that was written for the
// published operator is accepted, loses nothing, and keeps its meaning. Additions are never
// required: observedGeneration in conditions, printer columns, categories. tools/gen generates
// the CustomResourceDefinitions and the DeepCopy methods from this package;
// tests/conformance/crd compares the result with the published schemas.
//
// # Conditions
//
// Every kind has a fixed list of condition types (ConditionTypes), and all of them are always
// present: kubectl wait can wait for any, and an absent one means that the operator does not
// know it. A controller sets its findings with SetCondition and then adds the rest with
// CompleteConditions.
//
// # Requirements for users of the types
//
// Every optional field may be absent, spec and status included: nothing here
// panics on a zero value, and no code may assume more. Spec and Status are
// left out of the written form when they are zero, so that an object without a
// spec can be read and written back (a spec of which every field is empty
// becomes an absent one). A required list has to be set before an
// object is written, with an empty list where there is nothing: the API server
// refuses null.
//
// Lists have no merge keys (as published), so with server-side apply one
// manager owns a whole list.
//
// +kubebuilder:object:generate=true
// +groupName=signadot.com
package v1
