// Package login has the pages on which a person accepts the login of a device, or opens a preview, and logs in at an
// OpenID Connect issuer for that.
//
//	GET  /login/device    the code of a device, with what a login was started when; a form for one
//	POST /login/device    accepts or denies it
//	GET  /login/preview   redirects to a preview with a code, which lets this browser have a session there
//	GET  /login/start     redirects to the issuer (authorization code, PKCE, state, nonce)
//	GET  /login/callback  verifies the answer of the issuer, and begins a session
//	POST /login/logout    ends the session, or all sessions of the person, those of devices too
//
// A login counts only if a mapping of the settings has a value of the person's claims.
//
// No state is in memory, so that every replica serves every request: a login that is under way is in a
// cookie, encrypted, for ten minutes; sessions are in the store, and their cookie has the name of the
// session, encrypted: it is no bearer token of the API. The API takes no cookie.
//
// Forms need a session, its token, and the Origin of the pages. Codes of devices are looked up for
// persons with a session only, a few each minute. Pages have no script, and no other site can frame them.
package login
