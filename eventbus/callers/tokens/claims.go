package tokens

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// maxToken bounds a token, in bytes; real ones take about 1,200.
const maxToken = 16 << 10

// leeway is by how much the API server's clock can be behind this one.
const leeway = 5 * time.Minute

// MadeFor reports whether a token claims to be for an audience and has not expired. It does not
// verify the claims: only the API server can. A token that claims otherwise need not be sent to
// it; the check takes some microseconds.
func MadeFor(token, audience string, now time.Time) bool {
	c, ok := Claims(token)
	return ok && slices.Contains(c.Audience, audience) && (c.Expiry == 0 || now.Before(time.Unix(c.Expiry, 0).Add(leeway)))
}

// Claim is what a token states about itself, unverified.
type Claim struct {
	// Audience is the token's aud; Expiry its exp, in seconds since 1970, 0 without one.
	Audience Audience `json:"aud"`
	Expiry   int64    `json:"exp"`
	// Issuer is the token's iss, Subject its sub, the user name.
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	// Bound is to what Kubernetes has bound it.
	Bound struct {
		Pod struct {
			UID string `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

// Account returns the service account, as namespace/name; "" when it is none's.
func (c Claim) Account() string {
	name, ok := strings.CutPrefix(c.Subject, userPrefix)
	if !ok {
		return ""
	}
	return strings.Replace(name, ":", "/", 1)
}

// Audience is one name, or several.
type Audience []string

// UnmarshalJSON implements json.Unmarshaler: one name may stand without a list.
func (a *Audience) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		*a = make(Audience, 1)
		return json.Unmarshal(text, &(*a)[0])
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// Claims decodes the claims of a token (a JWT), unverified; false when it is not one.
func Claims(token string) (Claim, bool) {
	var c Claim
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return c, false
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil || json.Unmarshal(text, &c) != nil {
		return Claim{}, false
	}
	return c, true
}
