// Package authority makes, keeps and renews the certificates by which the operator's programs
// are known: the webhook's, and those of the route server and the event bus, with an overlap
// at every change, so that no call fails because of one.
//
// # Storage
//
// The operator's own authority signs a leaf that all replicas of the manager serve. Both are in
// the Secret webhook-server-cert, with their keys; the certificates of the authorities that
// callers trust are in the caBundle of the MutatingWebhookConfiguration, and of the
// ValidatingWebhookConfiguration where there is one, and in a ConfigMap for people. Leaf: 24
// hours, authority: 30 days, each renewed at half its life.
//
// # Rotation
//
//	announce   create the next authority; the bundle contains the old and the next
//	note       once the bundle with it is published, record the time
//	promote    a week later it signs the leaves; the old one stays in the bundle
//	forget     two leaf lives later remove the old one from the bundle
//
// Plan decides that, as a value: it takes the time and the observed state and returns the
// steps. A Keeper reads, plans and acts, every ten seconds and on every replica; writes are
// conditional on the state that was read, so of two replicas that do the same step one wins and
// the other reads again. Damaged or expired certificates are created again: the mutating
// webhook's failurePolicy is Ignore, so until then pods start without sidecars, and no pod is
// kept from starting; that of the validating one is Fail, so for those seconds the specs of the
// operator's objects cannot be changed.
//
// Users owe the right to get, patch and update these Secrets, the ConfigMap and the webhook
// configurations; where no chart has made the first of them, to create Secrets too.
package authority
