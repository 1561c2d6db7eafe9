// Package rollouts has the Argo Rollouts of a cluster at hand as long as the cluster
// has such a kind. Argo may be installed and removed while we run; nothing has to be
// restarted then, and as long as it is not there the API server is asked nothing about
// Rollouts.
//
//	New, Start   watch for the kind, and for Rollouts while it is there  rollouts.go
//	life         the Rollouts from when the kind came until it went      life.go
//	Client       a client that reads Rollouts from here                  client.go
//	Source       how controllers are told of Rollouts                    source.go
//
// # How the kind is found
//
// One watch, of the metadata of one object: the CustomResourceDefinition
// rollouts.argoproj.io. While that exists, is not being deleted, and the API server
// serves it, there is a cache of Rollouts; it ends with the definition. One that was
// replaced by another between two looks is known by its UID.
//
// # What users get
//
// A client made with Client reads Rollouts (as Unstructured) from that cache, with
// the indexes of Config. Without the kind a Get gives an error of meta.IsNoMatchError,
// and a List an empty list. Before it is known whether there is the kind both wait,
// so that nobody is told after a start that a Rollout is gone. They do not wait for
// ever: where Rollouts cannot be read although there are some, such as for a lack of
// rights, a Get gives an error that says so, and a List is empty, so that whatever
// has nothing to do with Rollouts goes on; those who have are told when that ends.
//
// A controller with a Source hears of each Rollout as of any other object. When the
// kind comes or goes it hears in addition of a Rollout without a name, by a
// generic event: everything that has to do with a Rollout is to be looked at then.
package rollouts
