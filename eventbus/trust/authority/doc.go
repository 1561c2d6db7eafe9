// Package authority makes, keeps and renews the certificates by which the operator's programs
// are known: the webhook's, and those of the route server and the event bus, with an overlap
// at every change, so that no call fails because of one.
//
// # Where it stands
//
// An authority of our own signs a leaf that all replicas of the manager serve.
// Both stand in the Secret webhook-server-cert, with their keys; the
// certificates of the authorities that callers may trust stand in the caBundle
// of the MutatingWebhookConfiguration, and of the ValidatingWebhookConfiguration where
// there is one, and in a ConfigMap for people. Leaf: 24 hours, authority: 30 days, each
// renewed at half its life.
//
// # How a change goes
//
//	announce   a next authority is made; the bundle holds the old and the next
//	note       the bundle with it is seen to be published: the time is written
//	promote    a week later it signs the leaves; the old one stays in the bundle
//	forget     two leaf lives later the old one goes from the bundle
//
// Plan decides that, as a value: it takes the time and what is there and gives
// the steps. A Keeper reads, plans and does, every ten seconds and on every
// replica; writes are conditional on what was read, so of two replicas that do
// the same step one wins and the other reads again. What is damaged or expired
// is begun anew: the mutating webhook's failurePolicy is Ignore, so meanwhile pods start
// without sidecars, and no pod is kept from starting; that of the validating one is Fail,
// so for those seconds no object of ours can be given another spec.
//
// Users owe the right to get, patch and update these Secrets, the ConfigMap and the webhook
// configurations; where no chart has made the first of them, to create Secrets too.
package authority
