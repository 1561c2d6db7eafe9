package access

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

// Accepted is how many tokens are known to have been accepted.
func (a *Access) Accepted() int { return len(a.accepted.Keys()) }

// A user with more tokens than are kept in all evicts no tokens of other users.
func TestAUserEvictsOnlyOwnTokens(t *testing.T) {
	k := newKept(clock(time.Now))
	key := func(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
	k.add("ada", key("hers"), "ada", keepUser)
	for n := range 2 * maxKept {
		k.add("bob", key(fmt.Sprint(n)), "bob", keepUser)
		k.add("bob", key(fmt.Sprint(n)), "bob", keepUser) // counts once
	}
	if user, is := k.Get(key("hers")); !is || user != "ada" {
		t.Error("a token was evicted by those of another user")
	}
	if n := len(k.Keys()); n != 1+maxEach {
		t.Errorf("%d tokens are kept", n)
	}
	for n := 2*maxKept - maxEach; n < 2*maxKept; n++ {
		if _, is := k.Get(key(fmt.Sprint(n))); !is {
			t.Fatalf("token %d, one of the last %d, is not kept", n, maxEach)
		}
	}
}
