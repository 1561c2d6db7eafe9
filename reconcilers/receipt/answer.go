package receipt

import "slices"

// Ask is the content to be acknowledged, and the proxies that have to.
type Ask struct {
	// Key is the routing key. Every proxy counts that can see it.
	Key string
	// Digest identifies the content to be acknowledged. A receipt is for one digest.
	Digest string
	// Pods are those, as namespace/name, that have to have a proxy that has
	// acknowledged, in any order. Proxies that are connected count in any case.
	Pods []string
}

// Answer is the known answer to an Ask. The zero Answer: nothing yet.
type Answer struct {
	// Had: all have acknowledged. Then the rest is empty.
	Had bool
	// Proxies is how many are connected.
	Proxies int
	// Behind are those that are connected and have not acknowledged.
	Behind []Proxy
	// Missing are the pods of the Ask without a connected proxy.
	Missing []string
	// Silent are route servers that did not report their proxies.
	Silent []string
	// Trouble is why no route server answers; empty when one has.
	Trouble string
}

// Proxy is one that has not acknowledged.
type Proxy struct {
	// Pod is its pod, as namespace/name.
	Pod string
	// Rejected is its message if it rejected an update; empty otherwise.
	Rejected string
}

// IsUnknown reports whether nothing is known yet.
func (a Answer) IsUnknown() bool {
	return !a.Had && a.Trouble == "" && len(a.Behind)+len(a.Missing)+len(a.Silent) == 0
}

// sameAs reports whether the two are for the same receipt.
func (a Ask) sameAs(b Ask) bool { return a.Key == b.Key && a.Digest == b.Digest }

// samePods reports whether the two name the same pods.
func (a Ask) samePods(b Ask) bool {
	return slices.Equal(slices.Sorted(slices.Values(a.Pods)), slices.Sorted(slices.Values(b.Pods)))
}
