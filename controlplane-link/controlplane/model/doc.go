// Package model has the values of the control plane that its REST handlers and its store share:
// organisations, principals, credentials, and the objects of the published API. It is pure.
//
// # Contract of a store
//
//   - Writes take the Event that describes them. The object and its entry in the audit trail are
//     written in one transaction.
//   - A write that returned nil is durable, and every later read returns it.
//   - Times, identifiers and routing keys are those in the value. The store has no clock and no
//     random source, except for the Generation, which it assigns.
//   - Times are UTC, and are read with at least microsecond precision.
//   - An error wraps one of the errors of this package if it reports the state of an object, and
//     none of them if the store itself failed.
//   - Lists are sorted by name, or by creation time and ID for objects without a name.
package model
