// Package optional keeps caches of kinds that a cluster may lack, such as Argo Rollouts and
// those of meshes. Their definitions may be installed and removed while the program runs:
// nothing has to be restarted, and without a definition the API server is asked nothing about
// its objects.
//
//	Kind, New, Start  which kinds, and their end               kinds.go
//	presence          whether one kind is there, and since when  presence.go
//	objects           its objects, as long as it is            objects.go
//	Client            a client that reads such objects         client.go
//	Source            how controllers are told of them         source.go
//
// To cache a further kind, add a Kind to the Config, with RBAC markers that allow to get,
// list and watch its objects, and the CustomResourceDefinition by its name.
//
// # How a kind is found
//
// One watch, of the metadata of one object: the CustomResourceDefinition. While that
// exists, is not being deleted, and the API server serves the version, there is a cache
// of its objects; it ends with the definition. One that was replaced by another between
// two looks is known by its UID.
//
// # What users get
//
// A Client reads the objects (as Unstructured) from that cache, with the indexes of the
// Kind. Without the kind a Get returns an error of meta.IsNoMatchError, and a List an empty
// list. Before it is known whether there is the kind both wait, so that nobody is told
// after a start that an object is gone.
//
// They do not wait for ever. Where the objects cannot be read, a Get returns an error that
// says why, which is none of meta.IsNoMatchError, and a List is empty, so that whatever has
// nothing to do with the kind goes on; controllers with a Source are told once objects can
// be read. A List cannot tell an empty cluster from one whose objects cannot be read: ask
// Present first where that counts.
//
// Where a right is missing that is logged at once, and again each hour. Readers are told when
// it is missing at a second try, about a second later. It ends by itself when somebody grants
// the right.
//
// A controller with a Source hears of each object as of any other. When the kind comes or
// goes it hears in addition of an object without a name, by a generic event: everything
// that has to do with the kind is to be looked at then.
package optional
