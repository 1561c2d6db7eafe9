// Package access authorizes requests to previews, each of them, whatever its connection.
//
// A browser has a session with the page of logins (package login), on another registrable domain. A preview, which runs
// the code of others, has one cookie per host, which names that session and is encrypted for that host:
//
//	GET https://PREVIEW/path          without a cookie: sets a nonce, and redirects to the page
//	GET https://PAGE/login/preview    with the session of the page: redirects with a code
//	GET https://PREVIEW/.switchyard/session?code=…
//	                                  with the nonce: sets the cookie, and redirects to the path
//
// A code is encrypted for one host and one nonce, and expires after a minute. The nonce is a cookie of that host that
// scripts cannot read, and is used once: a code is of no use in another browser and at another preview. The page answers
// encrypted requests of previews only. Service workers, which see codes in URLs, are refused. An error on the way ends on a
// page with the reason, never in another redirect.
//
// Credentials are tried in this order: cookies, the API key in header signadot-api-key, the bearer token. Cookies of this
// package and the header are removed from each request; Authorization is removed if its token has authenticated the
// request. All else is the application's.
package access
