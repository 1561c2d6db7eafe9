package tokens

import (
	"crypto/sha256"
	"time"
)

func (v *Verifier) recall(key [sha256.Size]byte) (Identity, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a, ok := v.kept[key]
	if !ok || !v.config.Clock().Before(a.until) {
		return Identity{}, false
	}
	return a.identity, true
}

func (v *Verifier) keep(key [sha256.Size]byte, identity Identity, token string) {
	now := v.config.Clock()
	until := now.Add(v.config.CacheFor)
	if expiry, ok := expiryOf(token); ok && expiry.Before(until) {
		until = expiry
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.kept) >= maxKept {
		v.sweep(now)
	}
	v.kept[key] = answer{identity: identity, until: until}
}

// sweep makes room: it drops what has run out, and if that is nothing, all; the
// callers are then asked about once more. The caller holds mu.
func (v *Verifier) sweep(now time.Time) {
	for key, a := range v.kept {
		if !now.Before(a.until) {
			delete(v.kept, key)
		}
	}
	if len(v.kept) >= maxKept {
		clear(v.kept)
	}
}

// expiryOf reads when a token (a JWT) expires. The API server has verified it
// already, so its claims can be believed.
func expiryOf(token string) (time.Time, bool) {
	claims, ok := Claims(token)
	if !ok || claims.Expiry == 0 {
		return time.Time{}, false
	}
	return time.Unix(claims.Expiry, 0), true
}
