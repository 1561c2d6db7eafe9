package access

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

// maxEach bounds the tokens of each user in a kept.
const maxEach = 64

// kept is a cache of values by the hashes of tokens, at most maxEach of each user, so that a user
// with many tokens evicts only their own. It is safe for concurrent use.
type kept struct {
	*cache.LRUExpireCache
	mu sync.Mutex
	// of has the hashes of each user's tokens, the oldest first.
	of *cache.LRUExpireCache
}

func newKept(clock cache.Clock) *kept {
	return &kept{LRUExpireCache: cache.NewLRUExpireCacheWithClock(maxKept, clock), of: cache.NewLRUExpireCacheWithClock(maxKept, clock)}
}

// add stores a value for a user's token, at most for keepAccepted.
func (k *kept) add(user string, key [sha256.Size]byte, value any, keep time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all [][sha256.Size]byte
	if before, is := k.of.Get(user); is {
		all = slices.DeleteFunc(before.([][sha256.Size]byte), func(other [sha256.Size]byte) bool { return other == key })
	}
	if len(all) >= maxEach {
		k.Remove(all[0])
		all = slices.Delete(all, 0, 1)
	}
	k.of.Add(user, append(all, key), keepAccepted)
	k.Add(key, value, keep)
}
