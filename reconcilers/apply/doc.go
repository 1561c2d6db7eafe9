// Package apply writes objects as they should be, with server-side apply under
// the field manager "switchyard", and only when they are not so already.
//
// An object that is to be written carries a hash of what we want it to be
// (AnnotationDesired). The copy that we hold is in line when it has everything
// that we want, the hash included: so a wish that has changed, also one that
// only left something out, is written, a field that somebody changed is
// noticed, and fields that others add are left alone. A copy in line costs no
// request.
//
// Three things are refused instead of forced, and come back as a *Refusal, for
// a condition:
//
//   - an object of that name exists that we did not make (NameTaken). Ours is
//     an object with our owner, by UID, as its controller. An object that a backup
//     tool restored without its owner is adopted if it has the intended specification
//     (decision record 54);
//   - another field manager has set a field that we want to set to something else
//     (FieldConflict), unless that field yields (decision record 0021);
//   - the API server does not take it: not valid, not allowed, or its namespace
//     does not exist.
//
// Every other error means: try again.
//
// When the condition Ready of an object turns, Status logs it, and tells it to people in
// an Event (EventOf), which kubectl describe shows.
package apply
