// Package apply writes objects with server-side apply under the field manager "switchyard", and only if
// they are out of date.
//
// A written object has a hash of its intended content (AnnotationDesired). The cached copy is current
// if it has all intended fields, including the hash. So a changed intention is written, even if it only
// removes a field; a field that another manager changed is noticed; and fields that others add are left
// alone. A current copy costs no request.
//
// Three things are refused instead of forced, and returned as a *Refusal, for a condition:
//
//   - an object of that name exists that the operator did not create (NameTaken): its controller, by
//     UID, is not the intended owner. An object that a backup tool restored without its owner is
//     adopted if it has the intended specification (decision record 54);
//   - another field manager has set an intended field to another value (FieldConflict), unless that
//     field yields (decision record 0021);
//   - the API server rejects it: it is invalid or not allowed, or its namespace does not exist.
//
// Every other error is to be retried.
//
// When the condition Ready of an object changes, Status logs it and records an Event (EventOf).
package apply
