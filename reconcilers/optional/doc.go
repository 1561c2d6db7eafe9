// Package optional keeps caches of kinds that a cluster may lack, such as Argo Rollouts and those of
// meshes. Their definitions may be installed and removed while the program runs: no restart is needed,
// and without a definition the API server receives no requests for its objects.
//
//	Kind, New, Start  the kinds, and their caches              kinds.go
//	presence          whether one kind is present              presence.go
//	objects           its objects, while it is present         kinds.go
//	Client            a client that reads such objects         client.go
//	Source            a source of their events for controllers source.go
//
// To cache a further kind, add a Kind to the Config, with RBAC markers that allow to get, list and
// watch its objects, and the CustomResourceDefinition by its name.
//
// # Detection
//
// A metadata watch of a single object, the CustomResourceDefinition. While that exists, is not being
// deleted, and the API server serves the version, there is a cache of its objects, which is stopped
// when the definition is deleted. A definition that was replaced between two checks is detected by its
// UID.
//
// # Reads
//
// A Client reads the objects (as Unstructured) from that cache, with the indexes of the Kind. Without
// the kind a Get returns an error of meta.IsNoMatchError, and a List an empty list. Until it is known
// whether the kind is present both wait, so that no object is reported as deleted after a start.
//
// The wait is bounded. If the objects cannot be read, a Get returns an error with the reason, which is
// not meta.IsNoMatchError, and a List is empty, so that controllers that do not need the kind continue;
// those with a Source get events once the objects can be read. A List does not distinguish an empty
// cluster from unreadable objects: call Present first if that matters.
//
// A missing right is logged at once, and again each hour. Readers get the error if it is still missing
// at a second attempt, about a second later. They recover without a restart once the right is granted.
//
// A controller with a Source gets events of the objects as of any other kind. When the kind appears or
// disappears it also gets a generic event with an object without a name, upon which it should reconcile
// everything that depends on the kind.
package optional
